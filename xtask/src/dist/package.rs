//! The packages: their control data, their scripts, and how they are packed.
//!
//! In: the folder of the built programs. Out: a `.deb` each: the program, the library for C, and
//! what programs are compiled with. `dpkg-shlibdeps` reads which libraries each needs.

use super::document;
use super::stage::{self, LIBRARY};
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{cannot, root};
use std::fs;
use std::path::{Path, PathBuf};

/// A package.
pub struct Package {
    /// Its name.
    pub name: &'static str,
    section: &'static str,
    /// Further lines of the control data.
    more: &'static str,
    /// The program or library whose libraries it needs.
    binary: Option<&'static str>,
    /// What it needs besides; `{version}` is its own.
    depends: &'static str,
    description: &'static str,
    /// Files of `tests/packaging/deb` that dpkg reads or runs, with their modes.
    control_files: &'static [(&'static str, &'static str)],
}

/// All packages.
pub const PACKAGES: [Package; 3] = [
    Package {
        name: "monitor",
        section: "admin",
        more: "",
        binary: Some("usr/bin/monitor"),
        depends: "adduser (>= 3.118), init-system-helpers (>= 1.54)",
        description: "what every process of a node uses, exactly and cheaply\n \
             Counts CPU, run-queue delay, memory, block I/O and network of every process,\n \
             those included that live for a millisecond, with eBPF or from /proc, and\n \
             reports events of processes to tools.\n",
        control_files: &[("postinst", "755"), ("prerm", "755"), ("postrm", "755")],
    },
    Package {
        name: "libomis1",
        section: "libs",
        more: "Multi-Arch: same\n",
        binary: Some(LIBRARY),
        depends: "",
        description: "tools and the monitor of a node: the C library\n \
             The procedures of OMIS 1.0, with which a tool sends requests to the service of\n \
             the package monitor, and receives the replies.\n",
        control_files: &[("shlibs", "644"), ("triggers", "644")],
    },
    Package {
        name: "libomis-dev",
        section: "libdevel",
        more: "Multi-Arch: same\n",
        binary: None,
        depends: "libomis1 (= {version})",
        description: "tools and the monitor of a node: headers of the C library\n \
             The procedures of OMIS 1.0, with which a tool sends requests to the service of\n \
             the package monitor, and receives the replies. This package has the headers and\n \
             the name that a linker looks for.\n",
        control_files: &[],
    },
];

/// Programs that pack, and Debian's packages that have them.
const NEEDED: &[(&str, &str)] =
    &[("dpkg-deb", "dpkg"), ("dpkg-shlibdeps", "dpkg-dev"), ("strip", "binutils")];

/// The folder in which the files of a package are staged.
pub fn tree(folder: &Path, package: &Package) -> PathBuf {
    folder.join("tree").join(package.name)
}

/// Makes the packages, in a folder, from the built programs.
pub fn build(built: &Path, folder: &Path, version: &str) -> Result<Vec<PathBuf>, String> {
    needed()?;
    stage::stage(built, &folder.join("tree"))?;
    for package in &PACKAGES {
        document::write(&tree(folder, package), package.name, version)?;
    }
    PACKAGES.iter().map(|package| pack(folder, package, version)).collect()
}

/// Packs the staged files; again with another version, for the check of an upgrade.
pub fn pack(folder: &Path, package: &Package, version: &str) -> Result<PathBuf, String> {
    let tree = tree(folder, package);
    let control = tree.join("DEBIAN");
    fs::create_dir_all(&control).map_err(|error| cannot("make", &control, &error))?;
    for (name, mode) in package.control_files {
        let to = control.join(name);
        stage::copy(&root().join("tests/packaging/deb").join(name), &to)?;
        step::run(step::fresh("chmod").arg(mode).arg(&to))?;
    }
    if tree.join("etc").exists() {
        write(&control.join("conffiles"), "/etc/monitor/monitor.toml\n")?;
    }
    write(&control.join("md5sums"), &checksums(&tree)?)?;
    write(&control.join("control"), &control_data(folder, package, version)?)?;
    let out = folder.join(format!("{}_{version}_amd64.deb", package.name));
    let mut command = step::fresh("dpkg-deb");
    command.args(["--root-owner-group", "--build"]).arg(&tree).arg(&out);
    step::run(&mut command)?;
    Ok(out)
}

fn control_data(folder: &Path, package: &Package, version: &str) -> Result<String, String> {
    let Package { name, section, more, description, .. } = package;
    let tree = tree(folder, package);
    let libraries = package.binary.map(|binary| libraries(folder, &tree.join(binary)));
    let rest = package.depends.replace("{version}", version);
    let depends: Vec<String> = libraries.transpose()?.into_iter().chain([rest]).collect();
    let depends = depends.iter().filter(|it| !it.is_empty()).cloned().collect::<Vec<_>>();
    Ok(format!(
        "Package: {name}\n\
         Source: monitor\n\
         Version: {version}\n\
         Architecture: amd64\n\
         Maintainer: {}\n\
         Installed-Size: {}\n\
         Depends: {}\n\
         Section: {section}\n\
         Priority: optional\n\
         {more}\
         Description: {description}",
        document::maintainer()?,
        installed_kilobytes(&tree)?,
        depends.join(", "),
    ))
}

/// The packages whose libraries a program needs, with their least versions.
fn libraries(folder: &Path, program: &Path) -> Result<String, String> {
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

/// The kilobytes that the files take, as `du` rounds them.
fn installed_kilobytes(tree: &Path) -> Result<String, String> {
    let mut command = step::fresh("du");
    command.args(["--summarize", "--apparent-size", "--block-size=1K", "--exclude=DEBIAN"]);
    let printed = step::answer(command.arg(tree));
    let size = printed.as_deref().and_then(|line| line.split_whitespace().next());
    size.map(str::to_owned).ok_or_else(|| format!("`{}` prints no size", step::line(&command)))
}

/// The checksums of all files, which `dpkg --verify` compares.
fn checksums(tree: &Path) -> Result<String, String> {
    let mut command = step::fresh("sh");
    let script = "find * -path DEBIAN -prune -o -type f -print0 | sort -z | xargs -0 md5sum";
    command.args(["-c", script]).current_dir(tree);
    let printed = step::answer(&mut command);
    printed.map(|lines| lines + "\n").ok_or_else(|| format!("`{}` failed", step::line(&command)))
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
