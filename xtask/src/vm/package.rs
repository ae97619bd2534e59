//! Debian's packages of a guest: its kernel, and one static program to begin with.
//!
//! In: a release. Out: the unpacked packages below `target/vm`, fetched once.

use crate::debian::{Apt, Suite, entries, unpack, write};
use crate::step;
use crate::workspace::cannot;
use std::fs;
use std::path::{Path, PathBuf};

/// Depends on the newest kernel of its release.
const KERNEL: &str = "linux-image-amd64";
const BUSYBOX: &str = "busybox-static";

/// What was unpacked.
pub struct Packages {
    /// The compressed kernel.
    pub kernel: PathBuf,
    /// The folder of its modules.
    pub modules: PathBuf,
    /// A static shell and everything it calls.
    pub busybox: PathBuf,
}

/// Fetches and unpacks what is not there yet.
pub fn fetch(suite: &Suite, folder: &Path) -> Result<Packages, String> {
    let unpacked = folder.join("root");
    if !folder.join("complete").exists() {
        let apt = Apt::new(suite, folder)?;
        let _ = step::output(&mut apt.call("apt-get", &["--quiet", "update"]))?;
        let depends =
            step::output(&mut apt.call("apt-cache", &["depends", "--important", KERNEL]))?;
        let image = depends
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: linux-image-"))
            .ok_or_else(|| format!("{KERNEL} of {} depends on no kernel", suite.name))?;
        for package in [&format!("linux-image-{image}"), BUSYBOX] {
            let _ = step::output(apt.call("apt-get", &["download", package]).current_dir(folder))?;
        }
        unpack_guest(folder, &unpacked)?;
        write(&folder.join("complete"), "")?;
    }
    let release = only(&unpacked.join("lib/modules"))?;
    let name = release.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Packages {
        kernel: unpacked.join(format!("boot/vmlinuz-{name}")),
        modules: release,
        busybox: ["bin/busybox", "usr/bin/busybox"]
            .map(|path| unpacked.join(path))
            .into_iter()
            .find(|path| path.exists())
            .ok_or_else(|| format!("{BUSYBOX} has no busybox"))?,
    })
}

fn unpack_guest(folder: &Path, into: &Path) -> Result<(), String> {
    unpack(folder, into)?;
    // Newer releases have /usr/lib alone.
    let usr = into.join("usr/lib/modules");
    if usr.exists() {
        fs::create_dir_all(into.join("lib")).map_err(|error| cannot("make", into, &error))?;
        let to = into.join("lib/modules");
        fs::rename(&usr, &to).map_err(|error| cannot("move", &usr, &error))?;
    }
    Ok(())
}

/// The one entry of a folder.
fn only(folder: &Path) -> Result<PathBuf, String> {
    let found = entries(folder)?.into_iter().next();
    found.ok_or_else(|| format!("{} is empty: remove {0} and try again", folder.display()))
}
