//! The packages pass `lintian`, are installed, upgraded, removed and purged, and the static program
//! runs alone.
//!
//! In: what `dist` made. Out: whether `lintian` and `tests/packaging/check.sh` found everything as
//! it should be. The script works on a copy: an overlay of this machine's files in a mount
//! namespace of its own.

use super::package::{self, PACKAGES};
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{cannot, root};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Tries all of them.
pub fn run(folder: &Path, version: &str, (packages, single): (&[PathBuf], &Path)) -> Outcome {
    if !crate::workspace::is_root() {
        return Err("a package can be tried by root only: it is installed in a copy of /".into());
    }
    lint(packages)?;
    let new = next(folder, version)?;
    let mut command = step::fresh("unshare");
    command.args(["--mount", "--propagation=private", "sh"]);
    command.arg(root().join("tests/packaging/check.sh")).args([&new, single]).args(packages);
    let outcome = step::run(&mut command);
    let _ = fs::remove_file(&new);
    outcome
}

/// Debian's own checks: an error and a warning are failures.
fn lint(packages: &[PathBuf]) -> Outcome {
    if step::answer(step::fresh("lintian").arg("--version")).is_none() {
        return Err("the packages are checked by lintian: apt-get install lintian".into());
    }
    let mut command = step::fresh("lintian");
    command.args(["--allow-root", "--tag-display-limit=0", "--fail-on=error,warning"]);
    step::run(command.args(packages))
}

/// The program's package of the version after this one, whose configuration is another.
fn next(folder: &Path, version: &str) -> Result<PathBuf, String> {
    let [program, ..] = &PACKAGES;
    let shipped = package::tree(folder, program).join("etc/monitor/monitor.toml");
    let file = fs::OpenOptions::new().append(true).open(&shipped);
    let added = file.and_then(|mut file| file.write_all(b"\n# A line of the next version.\n"));
    added.map_err(|error| cannot("write", &shipped, &error))?;
    package::pack(folder, program, &format!("{version}+next"))
}
