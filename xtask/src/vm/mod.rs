//! `cargo xtask vm --kernel 6.1`: the tests on the real kernel, on another kernel.
//!
//! Boots Debian's kernel under QEMU. The guest reads the files of this machine, so that it tests
//! what was built here; it runs the `root_` tests, and its status is the status of this command.
//! Emulated throughout (no KVM), so that it runs wherever QEMU does; a boot takes ten seconds.

mod boot;
mod package;

use crate::arguments::Arguments;
use crate::debian::{Suite, TRIXIE};
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::root;
use std::path::PathBuf;

/// The kernels there are, with the Debian release that has each.
const KERNELS: &[(&str, Suite)] = &[
    ("5.10", Suite { name: "bullseye", security: "bullseye-security" }),
    ("6.1", Suite { name: "bookworm", security: "bookworm-security" }),
    ("6.12", TRIXIE),
];

/// Programs that must be installed, and Debian's packages that have them.
const NEEDED: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("cpio", "cpio"),
    ("mkfs.ext4", "e2fsprogs"),
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("criu", "criu"),
];

/// Where CRIU must work: it asks much of a kernel, and not each of its versions works on each.
const OF_CRIU: &str = "6.1";

/// Names of tests begin with this; another may be given in `VM_TESTS`.
const TESTS: &str = "root_";

/// Runs the tests on one kernel, or on each.
pub fn run(arguments: &Arguments) -> Outcome {
    let wanted = arguments.value("--kernel");
    if wanted.is_some_and(|wanted| !KERNELS.iter().any(|(name, _)| wanted == *name)) {
        let names: Vec<&str> = KERNELS.iter().map(|(name, _)| *name).collect();
        return Err(format!("the kernels are {}", names.join(", ")));
    }
    needed()?;
    let tests = tests()?;
    let mut failed = Vec::new();
    for (kernel, suite) in KERNELS.iter().filter(|(name, _)| wanted.is_none_or(|it| it == *name)) {
        if let Err(error) = run_on(kernel, suite, &tests) {
            eprintln!("vm: {kernel}: {error}");
            failed.push(*kernel);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed on {}", failed.join(", "))) }
}

fn run_on(kernel: &str, suite: &Suite, tests: &[PathBuf]) -> Outcome {
    let folder = root().join("target/vm").join(kernel);
    let packages = package::fetch(suite, &folder)?;
    let filter = std::env::var("VM_TESTS").unwrap_or_else(|_| TESTS.into());
    // One line, however many it was written on: a shell reads it in the guest.
    let filter = filter.split_whitespace().collect::<Vec<_>>().join(" ");
    let criu = kernel == OF_CRIU;
    boot::boot(&boot::Guest { folder: &folder, packages: &packages, tests, filter: &filter, criu })
}

fn needed() -> Outcome {
    let there = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let sbin = [PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")];
        std::env::split_paths(&path).chain(sbin).any(|folder| folder.join(program).is_file())
    };
    let missing: Vec<_> =
        NEEDED.iter().filter(|(program, _)| !there(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("a guest needs programs that are missing: apt-get install {}", missing.join(" ")))
}

/// Beginnings of the names of test binaries that have nothing for another kernel. They are built
/// all the same: without their packages, cargo builds most crates a second time.
const OMITTED: &[&str] = &["xtask-", "monitor_ebpf-"];

/// Builds the test binaries that every kernel runs; where they are.
fn tests() -> Result<Vec<PathBuf>, String> {
    let output = step::cargo()
        .args(["test", "--locked", "--workspace", "--all-features", "--lib", "--bins", "--test=it"])
        .args(["--no-run", "--color=never"])
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("the tests do not build:\n{errors}"));
    }
    // A line for each: `Executable ../tests/it/main.rs (target/debug/deps/it-…)`.
    let path = |line: &str| {
        let path = line.trim().strip_prefix("Executable ")?.rsplit_once('(')?.1;
        let name = path.rsplit_once('/')?.1;
        let is_omitted = OMITTED.iter().any(|omitted| name.starts_with(omitted));
        Some(root().join(path.strip_suffix(')')?)).filter(|_| !is_omitted)
    };
    Ok(errors.lines().filter_map(path).collect())
}
