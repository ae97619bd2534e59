//! `cargo xtask criu`: CRIU of Debian 13, for tests that migrate processes: that of Debian 12 does
//! not know the kernels of this time.
//!
//! In: nothing. Out: `target/criu/criu`, a script that runs the program of the package with the
//! libraries of its release. Nothing is installed. Needs apt and dpkg.

use crate::arguments::Arguments;
use crate::debian::{Fetch, TRIXIE, fetch, write};
use crate::verdict::Outcome;
use crate::workspace::{cannot, target};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const PACKAGE: &str = "criu";
/// Where libraries are in the packages.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Fetches and unpacks it, unless it is there.
pub fn run(_arguments: &Arguments) -> Outcome {
    let folder = target().join(PACKAGE);
    let program = folder.join(PACKAGE);
    if program.exists() {
        return Ok(());
    }
    let root = fetch(&TRIXIE, &folder, (PACKAGE, Fetch::WithDependencies))?;
    let libraries = root.join(LIBRARIES);
    let script = format!(
        "#!/bin/sh\nexec \"{libraries}/ld-linux-x86-64.so.2\" --library-path \"{libraries}\" \
         \"{root}/usr/sbin/criu\" \"$@\"\n",
        libraries = libraries.display(),
        root = root.display(),
    );
    write(&program, &script)?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&program, executable).map_err(|error| cannot("change", &program, &error))
}
