//! `cargo xtask bench [NAME]`: what the monitor costs, on this machine.
//!
//! In: the name of one bench, or nothing for all. Out: what `tests/bench` prints.
//! Judges nothing: a missed bar is a line to read, because a busy machine moves every number.
//! What it is compared with is looked for in PATH, and before that where this makes cargo put what
//! Debian does not have: `cargo install NAME --locked --root target/peers`.

use crate::workspace::root;
use crate::{Outcome, step};
use std::ffi::OsString;
use std::path::PathBuf;

/// The benches, as `tests/bench/main.rs` lists them.
pub const NAMES: &[&str] = &[
    "snapshot", "procfs", "switch", "watch", "peers", "top", "language", "service", "rules",
    "record", "scrape",
];

/// Builds with optimisations and runs.
pub fn run(name: Option<&str>) -> Outcome {
    let mut command = step::cargo();
    command.args(["bench", "--package=monitor-user", "--bench=cost", "--locked", "--"]);
    step::run(command.args(name).env("PATH", path()?))
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
