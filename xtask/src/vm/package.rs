//! Debian's packages of a guest: its kernel, and one static program to begin with.
//!
//! In: a release. Out: the unpacked packages below `target/vm`, fetched once. apt keeps lists and
//! state of its own there, so that neither the release nor the sources of this machine matter.

use crate::step;
use crate::workspace::cannot;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian keeps the key that its releases are signed with.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Depends on the newest kernel of its release.
const KERNEL: &str = "linux-image-amd64";
const BUSYBOX: &str = "busybox-static";

/// A release of Debian.
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// The suite with its security updates.
    pub security: &'static str,
}

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
        unpack(folder, &unpacked)?;
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

/// apt with lists and state of its own.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(suite: &Suite, folder: &Path) -> Result<Self, String> {
        let state = folder.join("apt");
        for below in ["lists/partial", "cache/archives/partial"] {
            let path = state.join(below);
            fs::create_dir_all(&path).map_err(|error| cannot("make", &path, &error))?;
        }
        let line = |host: &str, name: &str| format!("deb [signed-by={KEYRING}] {host} {name} main");
        let sources = [
            line("http://deb.debian.org/debian", suite.name),
            line("http://deb.debian.org/debian-security", suite.security),
        ];
        write(&state.join("sources.list"), &(sources.join("\n") + "\n"))?;
        write(&state.join("status"), "")?;
        let at = |path: &str| state.join(path).display().to_string();
        let options = vec![
            format!("Dir::Etc::sourcelist={}", at("sources.list")),
            "Dir::Etc::sourceparts=-".into(),
            format!("Dir::State::lists={}", at("lists")),
            format!("Dir::State::status={}", at("status")),
            format!("Dir::Cache={}", at("cache")),
            // The user `_apt` may not read the folder of the lists.
            "APT::Sandbox::User=root".into(),
            "APT::Architecture=amd64".into(),
        ];
        Ok(Self { options })
    }

    fn call(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command.args(arguments);
        command
    }
}

fn unpack(folder: &Path, into: &Path) -> Result<(), String> {
    for entry in entries(folder)? {
        if entry.extension().is_some_and(|ending| ending == "deb") {
            let _ = step::output(Command::new("dpkg-deb").arg("--extract").arg(&entry).arg(into))?;
            fs::remove_file(&entry).map_err(|error| cannot("remove", &entry, &error))?;
        }
    }
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

/// What is in a folder.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let all = fs::read_dir(folder).map_err(|error| cannot("read", folder, &error))?;
    Ok(all.flatten().map(|entry| entry.path()).collect())
}

/// Writes a text file.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| cannot("write", path, &error))
}
