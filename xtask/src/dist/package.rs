//! The package: its files, its control data, and its scripts.
//!
//! In: the folder of the built programs. Out: a `.deb`. `dpkg-shlibdeps` reads from the program
//! which libraries it needs.

use super::stage;
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{cannot, root};
use std::fs;
use std::path::{Path, PathBuf};

/// Scripts that run when it is installed and removed; `check.sh` runs all of them.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Programs that pack, and Debian's packages that have them.
const NEEDED: &[(&str, &str)] =
    &[("dpkg-deb", "dpkg"), ("dpkg-shlibdeps", "dpkg-dev"), ("strip", "binutils")];

/// Makes the package from the built programs.
pub fn build(folder: &Path, version: &str, built: &Path) -> Result<PathBuf, String> {
    needed()?;
    let tree = folder.join("tree");
    stage::stage(built, &tree)?;
    let control = tree.join("DEBIAN");
    fs::create_dir_all(&control).map_err(|error| cannot("make", &control, &error))?;
    for script in SCRIPTS {
        let to = control.join(script);
        stage::copy(&root().join("tests/packaging/deb").join(script), &to)?;
        step::run(step::fresh("chmod").arg("755").arg(&to))?;
    }
    write(&control.join("conffiles"), "/etc/monitor/monitor.toml\n")?;
    let libraries = libraries(folder, &tree.join("usr/bin/monitor"))?;
    pack(folder, version, &libraries)
}

/// Packs the staged files; again with another version, for the check of an upgrade.
pub fn pack(folder: &Path, version: &str, libraries: &str) -> Result<PathBuf, String> {
    let (tree, package) =
        (folder.join("tree"), folder.join(format!("monitor_{version}_amd64.deb")));
    write(&tree.join("DEBIAN/control"), &control(version, libraries))?;
    let mut command = step::fresh("dpkg-deb");
    command.args(["--root-owner-group", "--build"]).arg(&tree).arg(&package);
    step::run(&mut command)?;
    Ok(package)
}

fn control(version: &str, libraries: &str) -> String {
    format!(
        "Package: monitor\n\
         Version: {version}\n\
         Architecture: amd64\n\
         Maintainer: The monitor's authors <monitor@localhost>\n\
         Depends: {libraries}, adduser, init-system-helpers\n\
         Section: admin\n\
         Priority: optional\n\
         Description: what every process of a node uses, exactly and cheaply\n \
         Counts CPU, run-queue delay, memory, block I/O and network of every process,\n \
         those included that live for a millisecond, with eBPF or from /proc, and\n \
         reports events of processes to tools.\n"
    )
}

/// The packages whose libraries the program needs, with their least versions.
pub fn libraries(folder: &Path, program: &Path) -> Result<String, String> {
    // It runs in a source package only.
    let debian = folder.join("source/debian");
    fs::create_dir_all(&debian).map_err(|error| cannot("make", &debian, &error))?;
    write(&debian.join("control"), "Source: monitor\n\nPackage: monitor\nArchitecture: any\n")?;
    let mut command = step::fresh("dpkg-shlibdeps");
    command.arg("-O").arg(program).current_dir(folder.join("source"));
    let printed = step::answer(&mut command);
    let printed = printed.as_deref().and_then(|line| line.strip_prefix("shlibs:Depends="));
    printed
        .map(str::to_owned)
        .ok_or_else(|| format!("`{}` prints no dependencies", step::line(&command)))
}

fn needed() -> Outcome {
    let is_there = |program: &str| step::answer(step::fresh(program).arg("--version")).is_some();
    let missing = NEEDED.iter().filter(|(program, _)| !is_there(program));
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("packing needs programs that are missing: apt-get install {}", missing.join(" ")))
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| cannot("write", path, &error))
}
