//! `cargo xtask fuzz [--for TIME] [--inputs N] [--seed N] [BORDER…]`: generated inputs for every
//! border at which untrusted bytes arrive.
//!
//! In: how long and how many inputs at most for each border, the seed, the borders by a part of
//! their tests' names. Out: the output of `tests/fuzz`, a line for each border. Built with
//! optimisation; an overflow is a panic.

use crate::arguments::{Arguments, Takes};
use crate::verdict::Outcome;
use crate::{soak, step};
use std::time::{SystemTime, UNIX_EPOCH};

/// A time and a number for each border, a seed, names of tests.
pub const TAKES: Takes = Takes {
    options: &[("--for", "TIME"), ("--inputs", "N"), ("--seed", "N")],
    operands: "BORDER…",
    ..Takes::NOTHING
};

/// Runs the borders, one after the other.
pub fn run(arguments: &Arguments) -> Outcome {
    let time = arguments.value("--for").unwrap_or("2m");
    let time =
        soak::duration(time).ok_or_else(|| format!("--for {time}: not a time such as 2m"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let number = |option, default: u64| match arguments.value(option) {
        Some(text) => text.parse().map_err(|error| format!("{option} {text}: {error}")),
        None => Ok(default),
    };
    let (inputs, seed) = (number("--inputs", u64::MAX)?, number("--seed", now.as_secs())?);
    println!("seed {seed}");
    let mut command = step::cargo();
    command.args(["test", "--locked", "--profile=fuzz", "--package=monitor-fuzz", "--test=fuzz"]);
    command.args(["--no-fail-fast", "--", "--nocapture", "--test-threads=1"]);
    command.args(&arguments.operands).env("MONITOR_FUZZ_SEED", seed.to_string());
    command.env("MONITOR_FUZZ_SECONDS", time.as_secs().to_string());
    step::run(command.env("MONITOR_FUZZ_INPUTS", inputs.to_string()))
}
