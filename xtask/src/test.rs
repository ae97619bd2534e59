//! `cargo xtask test`: every test there is.
//!
//! First all that need no privilege, side by side; then the tests on the real kernel (`root_…`),
//! one after the other, because they count what the machine does. Without privilege those print
//! `SKIP name: reason`; where skips are forbidden (`CI` is set, and we are root) they fail.

use crate::arguments::Arguments;
use crate::verdict::{Outcome, Verdict};
use crate::{autogroup, harness, step, workspace};
use std::process::Command;

/// The beginning of the name of every test that needs the real kernel.
const ROOT: &str = "root_";

/// Runs all tests and prints one list of failures.
pub fn run(_arguments: &Arguments) -> Outcome {
    verdict().report()
}

/// Runs all tests.
pub fn verdict() -> Verdict {
    let _off = autogroup::Off::begin();
    let mut verdict = harness::verdict(cargo_test().args(["--", "--skip", ROOT]));
    let mut root = cargo_test();
    // Not the examples in the documentation, which run above.
    root.args(["--lib", "--bins", "--tests", "--", ROOT, "--test-threads=1", "--show-output"]);
    if std::env::var_os("CI").is_some() && workspace::is_root() {
        root.env("MONITOR_REQUIRE_ROOT", "1");
    }
    verdict.add(harness::verdict(&mut root));
    verdict
}

fn cargo_test() -> Command {
    let mut command = step::cargo();
    command.args(["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"]);
    command
}
