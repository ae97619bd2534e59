//! The files of the packages, in the folders where they are installed.
//!
//! In: the folder of what was built. Out: a folder for each package with all of them; texts come
//! from the program itself, so that manual pages and completions are those of its command line.

use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{C_HEADERS, cannot, root};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// The library for C, in its package.
pub const LIBRARY: &str = "usr/lib/x86_64-linux-gnu/libomis.so.1";

/// Files that are copied unchanged: the path in the workspace, and the path on the machine.
const FILES: &[(&str, &str)] = &[
    ("tests/packaging/monitor.service", "usr/lib/systemd/system/monitor.service"),
    (
        "tests/packaging/monitor-rendezvous.service",
        "usr/lib/systemd/system/monitor-rendezvous.service",
    ),
    ("tests/packaging/monitor.toml", "etc/monitor/monitor.toml"),
    ("tests/packaging/deb/monitor.lintian-overrides", "usr/share/lintian/overrides/monitor"),
    ("README.md", "usr/share/doc/monitor/README.md"),
    ("docs/OPERATING.md", "usr/share/doc/monitor/OPERATING.md"),
];

/// Files of `C_HEADERS`, for `usr/include`.
const HEADERS: &[&str] = &["omis.h", "monitor_diag.h"];

/// Shells, and where each looks for completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/monitor"),
    ("zsh", "usr/share/zsh/vendor-completions/_monitor"),
    ("fish", "usr/share/fish/vendor_completions.d/monitor.fish"),
];

/// Copies and writes all files into an empty folder: below it, one for each package.
pub fn stage(built: &Path, into: &Path) -> Outcome {
    if into.exists() {
        fs::remove_dir_all(into).map_err(|error| cannot("remove", into, &error))?;
    }
    library(built, &into.join("libomis1").join(LIBRARY))?;
    development(&into.join("libomis-dev"))?;
    program(built, &into.join("monitor"))
}

/// The program with its unit, configuration and texts.
fn program(built: &Path, into: &Path) -> Outcome {
    let binary = into.join("usr/bin/monitor");
    folder_of(&binary)?;
    copy(&built.join("monitor"), &binary)?;
    strip(&binary)?;
    for (from, to) in FILES {
        folder_of(&into.join(to))?;
        copy(&root().join(from), &into.join(to))?;
    }
    for (shell, to) in COMPLETIONS {
        write(&into.join(to), &output_of(&binary, &["completions", shell])?)?;
    }
    let changes = root().join("docs/CHANGELOG.md");
    let changes = fs::read_to_string(&changes).map_err(|error| cannot("read", &changes, &error))?;
    write_packed(&into.join("usr/share/doc/monitor/CHANGELOG.md.gz"), &changes)?;
    manuals(&binary, &into.join("usr/share/man/man1"))
}

/// The library for C, under the name that programs keep. A library is not executed.
fn library(built: &Path, to: &Path) -> Outcome {
    folder_of(to)?;
    copy(&built.join("libomis.so"), to)?;
    strip(to)?;
    step::run(step::fresh("chmod").arg("644").arg(to))
}

/// The headers, and the name of the library that linkers look for.
fn development(into: &Path) -> Outcome {
    for name in HEADERS {
        let to = into.join("usr/include").join(name);
        folder_of(&to)?;
        copy(&root().join(C_HEADERS).join(name), &to)?;
    }
    let link = into.join(LIBRARY).with_extension("");
    folder_of(&link)?;
    symlink("libomis.so.1", &link).map_err(|error| cannot("write", &link, &error))
}

/// Manual pages, packed as Debian has them.
fn manuals(program: &Path, folder: &Path) -> Outcome {
    let _ = output_of(program, &["man", &folder.display().to_string()])?;
    let pages = fs::read_dir(folder).map_err(|error| cannot("read", folder, &error))?;
    for page in pages.flatten().map(|entry| entry.path()) {
        step::run(step::fresh("gzip").args(["--best", "--no-name"]).arg(&page))?;
    }
    Ok(())
}

/// The standard output of the program.
fn output_of(program: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let line = || format!("{} {}", program.display(), arguments.join(" "));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run `{}`: {error}", line()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(format!("`{}` failed: {}", line(), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Removes symbols and line tables, which are three quarters of the program.
pub fn strip(program: &Path) -> Outcome {
    step::run(step::fresh("strip").arg("--strip-unneeded").arg(program))
}

/// Copies a file.
pub fn copy(from: &Path, to: &Path) -> Outcome {
    fs::copy(from, to).map(drop).map_err(|error| cannot("write", to, &error))
}

/// Writes a text packed, as Debian has documents.
pub fn write_packed(path: &Path, text: &str) -> Outcome {
    // Without the suffix, which gzip adds.
    let plain = path.with_extension("");
    write(&plain, text.as_bytes())?;
    step::run(step::fresh("gzip").args(["--best", "--no-name"]).arg(&plain))
}

/// Writes a file, and the folders above it.
pub fn write(path: &Path, bytes: &[u8]) -> Outcome {
    folder_of(path)?;
    let file = fs::File::create(path).and_then(|mut file| file.write_all(bytes));
    file.map_err(|error| cannot("write", path, &error))
}

fn folder_of(path: &Path) -> Outcome {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| cannot("make", folder, &error))
}
