//! `cargo xtask soak [--for TIME] [--seed N]`: random workloads, tools and kills, for a time.
//!
//! In: how long, and the seed; without one, a new one. Out: the output of `tests/it/soak`, which
//! prints the seed, and on failure what the round did. Needs root.

use crate::arguments::{Arguments, Takes};
use crate::step;
use crate::verdict::Outcome;
use crate::workspace::PACKAGE;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TEST: &str = "soak::root_whatever_is_killed_no_program_is_harmed_and_nothing_is_left";

/// A time, a number.
pub const TAKES: Takes = Takes { options: &[("--for", "TIME"), ("--seed", "N")], ..Takes::NOTHING };

/// Runs the rounds of the test until the time is over.
pub fn run(arguments: &Arguments) -> Outcome {
    let time = arguments.value("--for").unwrap_or("30m");
    let time = duration(time).ok_or_else(|| format!("--for {time}: not a time such as 30m"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = match arguments.value("--seed") {
        Some(seed) => seed.parse().map_err(|error| format!("--seed {seed}: {error}"))?,
        None => now.as_secs(),
    };
    let mut command = step::cargo();
    command.args(["test", "--locked", "--all-features", "--package", PACKAGE, "--test=it"]);
    command.args(["--", "--exact", TEST, "--nocapture"]).env("MONITOR_REQUIRE_ROOT", "1");
    command.env("MONITOR_SOAK_SECONDS", time.as_secs().to_string());
    step::run(command.env("MONITOR_SOAK_SEED", seed.to_string()))
}

/// `90s`, `30m` or `2h`.
pub fn duration(text: &str) -> Option<Duration> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let of = |(unit, seconds)| Some((text.strip_suffix(unit)?.parse::<u64>().ok()?, seconds));
    let (number, seconds) = units.into_iter().find_map(of)?;
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        let seconds = |text| duration(text).map(|it| it.as_secs());
        assert_eq!(
            [seconds("90s"), seconds("30m"), seconds("2h")],
            [Some(90), Some(1800), Some(7200)]
        );
        assert_eq!([seconds("30"), seconds("m"), seconds("-1s")], [None; 3]);
    }
}
