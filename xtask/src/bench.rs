//! `cargo xtask bench [NAME]`: what the monitor costs, on this machine.
//!
//! In: the name of one bench, or nothing for all. Out: what `tests/bench` prints.
//! Judges nothing: a missed bar is a line to read, because a busy machine moves every number.

use crate::{Outcome, step};

/// The benches, as `tests/bench/main.rs` lists them.
pub const NAMES: &[&str] = &[
    "snapshot", "procfs", "switch", "watch", "peers", "top", "language", "service", "rules",
    "record",
];

/// Builds with optimisations and runs.
pub fn run(name: Option<&str>) -> Outcome {
    let mut command = step::cargo();
    command.args(["bench", "--package=monitor-user", "--bench=cost", "--locked", "--"]);
    step::run(command.args(name))
}
