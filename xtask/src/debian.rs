//! Packages of other releases of Debian, unpacked and not installed.
//!
//! In: a release, a folder, names of packages. Out: their files in the folder. apt keeps lists and
//! state of its own there, so that neither the release nor the sources of this machine matter; it
//! checks the signature of the release.

use crate::step;
use crate::workspace::cannot;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian keeps the key that its releases are signed with.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Debian 13.
pub const TRIXIE: Suite = Suite { name: "trixie", security: "trixie-security" };

/// A release of Debian.
pub struct Suite {
    /// Its name.
    pub name: &'static str,
    /// The suite with its security updates.
    pub security: &'static str,
}

/// apt with lists and state of its own.
pub struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// With its state in a folder.
    pub fn new(suite: &Suite, folder: &Path) -> Result<Self, String> {
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

    /// A command that uses this state.
    pub fn call(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command.args(arguments);
        command
    }
}

/// What is fetched with a package.
#[derive(Clone, Copy)]
pub enum Fetch {
    /// It alone.
    Alone,
    /// What it depends on, too.
    WithDependencies,
}

/// Fetches a package into a folder, and unpacks it; returns the root of its files.
pub fn fetch(
    suite: &Suite,
    folder: &Path,
    (package, what): (&str, Fetch),
) -> Result<PathBuf, String> {
    let apt = Apt::new(suite, folder)?;
    let archives = folder.join("apt/cache/archives");
    let words: &[&str] = match what {
        Fetch::Alone => &["--quiet", "download", package],
        Fetch::WithDependencies => {
            &["--yes", "--no-install-recommends", "--download-only", "install", package]
        }
    };
    let _ = step::output(&mut apt.call("apt-get", &["--quiet", "update"]))?;
    // `download` writes to the folder that it runs in.
    let _ = step::output(apt.call("apt-get", words).current_dir(&archives))?;
    let root = folder.join("root");
    unpack(&archives, &root)?;
    Ok(root)
}

/// Unpacks all packages of a folder, and removes them.
pub fn unpack(folder: &Path, into: &Path) -> Result<(), String> {
    for entry in entries(folder)? {
        if entry.extension().is_some_and(|ending| ending == "deb") {
            let _ = step::output(Command::new("dpkg-deb").arg("--extract").arg(&entry).arg(into))?;
            fs::remove_file(&entry).map_err(|error| cannot("remove", &entry, &error))?;
        }
    }
    Ok(())
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
