//! `cargo xtask bench [NAME…]`: what the monitor costs, on this machine.
//!
//! In: the names of benches, or nothing for all; the profile to build; another checkout to compare
//! with. Out: the output of `tests/bench`, or the comparison (`against.rs`).
//! Fails for no number: a missed bar is a line to read, because a busy machine moves every number.
//! The programs that it compares with are searched in PATH, and before that where this makes cargo
//! put those that Debian does not have: `cargo install NAME --locked --root target/peers`.

mod against;
mod rows;

use crate::arguments::{Arguments, Takes};
use crate::autogroup;
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::{PROFILE, cannot, root};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The benches, as `tests/bench/main.rs` lists them.
const NAMES: &[&str] = &[
    "snapshot", "activity", "procfs", "switch", "watch", "peers", "top", "language", "service",
    "flood", "rules", "run", "start", "record", "scrape", "truth", "requests", "jobs", "files",
    "cluster",
];

/// The profile of the other checkout: before there was `dist`, packages shipped this one.
const RELEASE: &str = "release";

/// Names of benches, a profile of cargo, a checkout.
pub const TAKES: Takes = Takes {
    options: &[
        ("--profile", "PROFILE"),
        ("--against", "DIR"),
        ("--rounds", "COUNT"),
        ("--nodes", "N"),
    ],
    operands: "NAME…",
    ..Takes::NOTHING
};

/// Builds with optimisations and runs.
pub fn run(arguments: &Arguments) -> Outcome {
    let names = &arguments.operands;
    if let Some(name) = names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("there is no bench `{name}`, only {}", NAMES.join(", ")));
    }
    let _off = autogroup::Off::begin();
    let profile = arguments.value("--profile").unwrap_or(PROFILE);
    let mut ours = command(&root(), profile, names)?;
    // The most nodes of `bench cluster`: it has 200 daemons and 1,000 light agents.
    ours.envs(arguments.value("--nodes").map(|nodes| ("MONITOR_BENCH_NODES", nodes)));
    let Some(folder) = arguments.value("--against") else { return step::run(&mut { ours }) };
    let folder =
        Path::new(folder).canonicalize().map_err(|error| cannot("find", folder, &error))?;
    let mut theirs = command(&folder, RELEASE, names)?;
    // A target folder in common would have one program for both.
    theirs.env_remove("CARGO_TARGET_DIR");
    against::run(theirs, ours, arguments.value("--rounds"))
}

/// `cargo bench` in a checkout.
fn command(checkout: &Path, profile: &str, names: &[String]) -> Result<Command, String> {
    let mut command = step::cargo();
    command.args(["bench", "--bench=cost", "--all-features", "--locked"]);
    command.arg(format!("--package={}", package(checkout)?));
    command.arg(format!("--profile={profile}"));
    command.arg("--").args(names).env("PATH", path()?);
    command.current_dir(checkout);
    Ok(command)
}

/// The name of the package that has the bench; it differs between revisions.
fn package(checkout: &Path) -> Result<String, String> {
    let manifest = checkout.join("monitor-user/Cargo.toml");
    let text =
        std::fs::read_to_string(&manifest).map_err(|error| cannot("read", &manifest, &error))?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = "));
    let name = name.ok_or_else(|| format!("{} names no package", manifest.display()))?;
    Ok(name.trim_matches('"').to_owned())
}

/// The folder of `--root` above, or the one that `MONITOR_PEERS` names, before all others.
fn path() -> Result<OsString, String> {
    let folder = std::env::var_os("MONITOR_PEERS").map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| root().join("target/peers"));
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.join("bin")).chain(std::env::split_paths(&others));
    std::env::join_paths(all)
        .map_err(|why| format!("PATH cannot be set: {why}; is there a colon in MONITOR_PEERS?"))
}
