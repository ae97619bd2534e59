//! The BPF toolchain: a compiler that can build `core`, and `bpf-linker`.
//!
//! Out: a `Toolchain` with absolute paths, or what is missing and the commands that install it.
//! Debian's packages come first: CI has the same ones, so its objects can be compared byte by byte.
//! Never uses a `rustc` or `cargo` from the PATH: rustup's proxies come first there.

use crate::{step, workspace};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's names for a current compiler, its sources, and the LLVM that it was built with.
const PACKAGES: &[&str] =
    &["rustc-web", "rust-web-src", "cargo-web", "rust-web-clippy", "llvm-22-dev"];
const LLVM: &str = "22";
const BPF_LINKER: &str = "0.13.0";
/// The compiler must be able to build the edition and the standard library of the user half.
const OLDEST_MINOR: u32 = 95;

/// The path of each tool.
pub struct Toolchain {
    cargo: PathBuf,
    rustc: PathBuf,
    linker: PathBuf,
}

impl Toolchain {
    /// The best toolchain of this machine, or what to install.
    pub fn find() -> Result<Toolchain, String> {
        let compiler = debian().or_else(nightly);
        let linker = linker();
        match (compiler, linker) {
            (Some((cargo, rustc)), Some(linker)) => Ok(Toolchain { cargo, rustc, linker }),
            (compiler, linker) => Err(missing(compiler.is_some(), linker.is_some())),
        }
    }

    /// `cargo` of this toolchain, which compiles with its `rustc` and links with its linker.
    pub fn cargo(&self) -> Command {
        self.command(&self.cargo)
    }

    /// `cargo clippy` of this toolchain, if it has one.
    ///
    /// Called by its path: `cargo clippy` would look into cargo's home first, and find rustup's.
    pub fn clippy(&self) -> Result<Command, String> {
        let clippy = clippy(&self.cargo).ok_or(
            "the BPF toolchain has no clippy; `cargo xtask build-ebpf --setup` installs it",
        )?;
        let mut command = self.command(&clippy);
        command.env("CARGO", &self.cargo);
        Ok(command)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = step::fresh(program);
        command.env("RUSTC", &self.rustc);
        // Debian's compiler is a stable one; a nightly one does not mind.
        command.env("RUSTC_BOOTSTRAP", "1");
        command.env("PATH", path_beginning_with(&self.linker));
        command
    }

    /// Names and versions, as one line: objects of one line can be compared byte by byte.
    pub fn versions(&self) -> Result<String, String> {
        let version = |program: &Path| {
            step::answer(step::fresh(program).arg("--version"))
                .ok_or_else(|| format!("`{} --version` failed", program.display()))
        };
        Ok(format!("{}, {}", version(&self.rustc)?, version(&self.linker)?))
    }

    /// The folder of the sources of `core`.
    pub fn library(&self) -> Result<PathBuf, String> {
        library(&self.rustc).ok_or_else(|| {
            format!("{} has lost its sources; install rust-web-src", self.rustc.display())
        })
    }
}

/// Runs the commands that install what is missing.
pub fn set_up() -> Result<(), String> {
    let compiler = debian().or_else(nightly);
    if compiler.and_then(|(cargo, _)| clippy(&cargo)).is_none() {
        let mut install = as_root("apt-get");
        install.args(["install", "--yes", "--no-install-recommends"]).args(PACKAGES);
        step::run(install.env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    if linker().is_none() {
        let mut install = step::cargo();
        install.env("LLVM_PREFIX", llvm_prefix()).args(linker_install());
        step::run(&mut install)?;
    }
    Toolchain::find().map(|_| ())
}

fn clippy(cargo: &Path) -> Option<PathBuf> {
    Some(cargo.with_file_name("cargo-clippy")).filter(|file| file.exists())
}

/// `rustc-web` and `cargo-web`, if they are there and new enough.
fn debian() -> Option<(PathBuf, PathBuf)> {
    let rustc = PathBuf::from("/usr/bin/rustc");
    let cargo = PathBuf::from("/usr/bin/cargo");
    let version = step::answer(step::fresh(&rustc).arg("--version"))?;
    (minor(&version)? >= OLDEST_MINOR && cargo.exists() && library(&rustc).is_some())
        .then_some((cargo, rustc))
}

/// A nightly of rustup with `rust-src`.
fn nightly() -> Option<(PathBuf, PathBuf)> {
    let mut which = step::fresh("rustup");
    let rustc = PathBuf::from(step::answer(which.args(["which", "--toolchain=nightly", "rustc"]))?);
    library(&rustc)?;
    Some((rustc.with_file_name("cargo"), rustc))
}

fn library(rustc: &Path) -> Option<PathBuf> {
    let sysroot = step::answer(step::fresh(rustc).args(["--print", "sysroot"]))?;
    let sources = Path::new(&sysroot).join("lib/rustlib/src/rust");
    sources.join("library/core/src/lib.rs").exists().then_some(sources)
}

fn linker() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(cargo_home().map(|home| home.join("bin")));
    let found = folders.map(|folder| folder.join("bpf-linker")).find(|file| file.exists())?;
    let version = step::answer(step::fresh(&found).arg("--version"))?;
    version.ends_with(BPF_LINKER).then_some(found)
}

/// Where cargo keeps what it downloads and installs.
pub fn cargo_home() -> Option<PathBuf> {
    let default = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(default)
}

/// `rustc 1.96.0 (…)` is 96.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("rustc 1.")?.split('.').next()?.parse().ok()
}

fn path_beginning_with(linker: &Path) -> std::ffi::OsString {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let first = linker.parent().map(Path::to_path_buf);
    std::env::join_paths(first.into_iter().chain(std::env::split_paths(&rest))).unwrap_or(rest)
}

fn as_root(program: &str) -> Command {
    if workspace::is_root() {
        return step::fresh(program);
    }
    let mut command = step::fresh("sudo");
    command.arg(program);
    command
}

fn llvm_prefix() -> String {
    format!("/usr/lib/llvm-{LLVM}")
}

fn linker_install() -> Vec<String> {
    let feature = format!("llvm-{LLVM}");
    ["install", "bpf-linker", "--version", BPF_LINKER, "--no-default-features", "--features"]
        .map(str::to_owned)
        .into_iter()
        .chain([feature])
        .collect()
}

fn missing(has_compiler: bool, has_linker: bool) -> String {
    let mut text = String::from(
        "the BPF toolchain is not complete. Only changes of monitor-ebpf need it.\n\
         `cargo xtask build-ebpf --setup` runs these commands:\n",
    );
    if !has_compiler {
        text += &format!("  apt-get install {}\n", PACKAGES.join(" "));
        text += "    (or, without Debian: rustup toolchain install nightly --component rust-src)\n";
    }
    if !has_linker {
        let install = linker_install().join(" ");
        text += &format!("  LLVM_PREFIX={} cargo {install}\n", llvm_prefix());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minor_version_is_the_second_number() {
        assert_eq!(minor("rustc 1.96.0 (ac68faa20 2026-05-25)"), Some(96));
        assert_eq!(minor("rustc 1.97.0-nightly (0 2026-06-01)"), Some(97));
        assert_eq!(minor("gcc 12"), None);
    }

    #[test]
    fn what_is_there_is_not_installed_again() {
        assert!(missing(false, false).contains("apt-get"));
        assert!(!missing(true, false).contains("apt-get"));
        assert!(!missing(false, true).contains("bpf-linker"));
    }
}
