//! `cargo xtask ci`: every check, and all failures in one list at the end.
//!
//! A check that fails does not stop the next one. Checks that need the BPF toolchain are skipped
//! without it, with a message; where `CI` is set, that is a failure.

use crate::arguments::Arguments;
use crate::build_ebpf::{self, toolchain::Toolchain};
use crate::verdict::{Outcome, Verdict};
use crate::{docs, step, test, tidy};
use std::time::Instant;

/// One check: its name in the list of failures and what it does.
struct Check {
    name: &'static str,
    run: fn() -> Outcome,
}

const CHECKS: &[Check] = &[
    Check { name: "fmt", run: || step::run(step::cargo().args(["fmt", "--all", "--check"])) },
    Check { name: "clippy", run: clippy },
    Check { name: "objects", run: build_ebpf::up_to_date },
    Check { name: "build-ebpf", run: || with_toolchain(build_ebpf::check) },
    Check { name: "clippy of the kernel half", run: || with_toolchain(build_ebpf::clippy) },
    Check { name: "tidy", run: || tidy::check() },
    Check { name: "docs", run: || docs::check() },
];

/// Runs all checks, then all tests.
pub fn run(_arguments: &Arguments) -> Outcome {
    let mut verdict = Verdict::default();
    let begin = Instant::now();
    let begins = |name: &str| println!("== {name} (after {} s)", begin.elapsed().as_secs());
    for Check { name, run } in CHECKS {
        begins(name);
        verdict.add(Verdict::from_outcome(name, run()));
    }
    begins("test");
    verdict.add(test::verdict());
    verdict.report()
}

fn clippy() -> Outcome {
    let mut command = step::cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--all-features", "--locked"]);
    step::run(command.args(["--", "--deny=warnings"]))
}

fn with_toolchain(check: fn(&Toolchain) -> Outcome) -> Outcome {
    match Toolchain::find() {
        Ok(toolchain) => check(&toolchain),
        Err(missing) if std::env::var_os("CI").is_some() => Err(missing),
        Err(missing) => {
            println!("skipped: {missing}");
            Ok(())
        }
    }
}
