//! `cargo xtask dist`: what is handed to others, a Debian package and a static program.
//!
//! Out, in `target/dist`: `monitor_VERSION_ARCH.deb` with the program, its unit, its configuration,
//! manual pages, completions and the library for C; and `monitor-VERSION-ARCH-linux`, one file that
//! runs on any Linux.
//! `--check` installs, upgrades and removes the package, in a copy of this machine's files that is
//! thrown away (`tests/packaging/check.sh`).
//!
//! Debian's own tools pack it: `cargo-deb` would be built first on every new machine, for minutes.

mod check;
mod package;
mod stage;

use crate::workspace::{cannot, root};
use crate::{Outcome, step};
use std::fs;
use std::path::Path;

/// Builds both, and with `--check` tries them.
pub fn run(option: Option<&str>) -> Outcome {
    let folder = root().join("target/dist");
    fs::create_dir_all(&folder).map_err(|error| cannot("make", &folder, &error))?;
    let version = version()?;
    let release = root().join("target/release");
    // First, because the program of the package takes its place.
    let single = folder.join(format!("monitor-{version}-x86_64-linux"));
    build_static()?;
    copy(&release.join("monitor"), &single)?;
    strip(&single)?;
    build()?;
    let package = package::build(&folder, &version, &release)?;
    for made in [&package, &single] {
        println!("{}", made.display());
    }
    match option {
        Some(_) => check::run(&folder, &version, &single),
        None => Ok(()),
    }
}

/// The version of the workspace, as cargo tells it.
fn version() -> Result<String, String> {
    let mut command = step::cargo();
    let id = step::answer(command.args(["pkgid", "--package=monitor-user"]));
    let version = id.as_deref().and_then(|id| id.rsplit(['#', '@']).next());
    version.map(str::to_owned).ok_or_else(|| "`cargo pkgid` does not tell the version".to_owned())
}

/// Links the C library into the program; what is below it is built without flags.
fn build_static() -> Outcome {
    let mut command = step::cargo();
    command.args(["rustc", "--release", "--locked", "--package=monitor-user", "--bin=monitor"]);
    step::run(command.args(["--", "-C", "target-feature=+crt-static"]))
}

/// Builds the program and the library for C.
fn build() -> Outcome {
    let mut command = step::cargo();
    command.args(["build", "--release", "--locked", "--package=monitor-user"]);
    step::run(command.arg("--package=monitor-capi"))
}

/// Takes names and lines of the program's source away: they are three quarters of it.
fn strip(program: &Path) -> Outcome {
    step::run(step::fresh("strip").arg("--strip-unneeded").arg(program))
}

fn copy(from: &Path, to: &Path) -> Outcome {
    fs::copy(from, to).map(drop).map_err(|error| cannot("write", to, &error))
}
