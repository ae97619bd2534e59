//! The package is installed, upgraded, removed and purged, and the static program runs alone.
//!
//! In: what `dist` made. Out: whether `tests/packaging/check.sh` found everything as it should be.
//! It works on a copy: an overlay of this machine's files in a mount namespace of its own.

use super::package;
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{cannot, root};
use std::fs;
use std::io::Write;
use std::path::Path;

/// Tries both.
pub fn run(folder: &Path, version: &str, single: &Path) -> Outcome {
    if !crate::workspace::is_root() {
        return Err("a package can be tried by root only: it is installed in a copy of /".into());
    }
    let old = folder.join(format!("monitor_{version}_amd64.deb"));
    let new = next(folder, version)?;
    let mut command = step::fresh("unshare");
    command.args(["--mount", "--propagation=private", "sh"]);
    command.arg(root().join("tests/packaging/check.sh")).args([&old, &new]).arg(single);
    let outcome = step::run(&mut command);
    let _ = fs::remove_file(&new);
    outcome
}

/// The package of the version after this one, whose configuration is another.
fn next(folder: &Path, version: &str) -> Result<std::path::PathBuf, String> {
    let (tree, version) = (folder.join("tree"), format!("{version}+next"));
    let libraries = package::libraries(folder, &tree.join("usr/bin/monitor"))?;
    let shipped = tree.join("etc/monitor/monitor.toml");
    let file = fs::OpenOptions::new().append(true).open(&shipped);
    let added = file.and_then(|mut file| file.write_all(b"\n# A line of the next version.\n"));
    added.map_err(|error| cannot("write", &shipped, &error))?;
    package::pack(folder, &version, &libraries)
}
