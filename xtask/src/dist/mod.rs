//! `cargo xtask dist`: what is shipped, Debian packages and a static program.
//!
//! Out, in `target/dist`: `monitor_VERSION_ARCH.deb` with the program, its unit, its configuration,
//! manual pages and completions; `libomis1` with the library for C, `libomis-dev` with its headers;
//! and `monitor-VERSION-ARCH-linux`, one file that runs on any Linux.
//! `--check` runs `lintian`, and installs, upgrades and removes the packages, in a copy of this
//! machine's files that is thrown away (`tests/packaging/check.sh`). `--profile dev` packs what the
//! tests have built, where it is not to be shipped.
//!
//! Debian's own tools pack it: `cargo-deb` would be built first on every new machine, for minutes.

mod check;
mod document;
mod package;
mod stage;

use crate::arguments::Arguments;
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{C_LIBRARY, PACKAGE, PROFILE, cannot, target};
use stage::{copy, strip};
use std::fs;

/// Builds both, and with `--check` tries them.
pub fn run(arguments: &Arguments) -> Outcome {
    let profile = arguments.value("--profile").unwrap_or(PROFILE);
    let built = target().join(if profile == "dev" { "debug" } else { profile });
    let folder = target().join(PROFILE);
    fs::create_dir_all(&folder).map_err(|error| cannot("make", &folder, &error))?;
    let version = version()?;
    // First, because the program of the package is built to the same path.
    let single = folder.join(format!("monitor-{version}-x86_64-linux"));
    build_static(profile)?;
    copy(&built.join("monitor"), &single)?;
    strip(&single)?;
    build(profile)?;
    let packages = package::build(&built, &folder, &version)?;
    for made in packages.iter().chain([&single]) {
        println!("{}", made.display());
    }
    if arguments.has("--check") {
        check::run(&folder, &version, (&packages, &single))
    } else {
        Ok(())
    }
}

/// The version of the workspace, as cargo prints it.
fn version() -> Result<String, String> {
    let mut command = step::cargo();
    let id = step::answer(command.args(["pkgid", "--package", PACKAGE]));
    let version = id.as_deref().and_then(|id| id.rsplit(['#', '@']).next());
    version.map(str::to_owned).ok_or_else(|| "`cargo pkgid` prints no version".to_owned())
}

/// Links the C library into the program; what is below it is built without flags.
fn build_static(profile: &str) -> Outcome {
    let mut command = step::cargo();
    command.args(["rustc", "--profile", profile, "--all-features", "--locked"]);
    command.args(["--package", PACKAGE, "--bin=monitor"]);
    step::run(command.args(["--", "-C", "target-feature=+crt-static"]))
}

/// Builds the program and the library for C.
fn build(profile: &str) -> Outcome {
    let mut command = step::cargo();
    command.args(["build", "--profile", profile, "--all-features", "--locked"]);
    step::run(command.args(["--package", PACKAGE, "--package", C_LIBRARY]))
}
