//! `cargo xtask ci`: every check, and all failures in one list at the end.
//!
//! A check that fails does not stop the next one. What needs the BPF toolchain is left out without
//! it, aloud; where `CI` is set, that is a failure.

use crate::build_ebpf::{self, toolchain::Toolchain};
use crate::verdict::Verdict;
use crate::{Outcome, docs, step, test, tidy};
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
    Check { name: "tidy", run: || tidy::run(None) },
    Check { name: "docs", run: || docs::run(Some("--check")) },
];

/// Runs all checks, then all tests.
pub fn run(_option: Option<&str>) -> Outcome {
    let mut verdict = Verdict::default();
    let begin = Instant::now();
    let begins = |name: &str| println!("== {name} (after {} s)", begin.elapsed().as_secs());
    for Check { name, run } in CHECKS {
        begins(name);
        verdict.add(Verdict::of(name, run()));
    }
    begins("test");
    verdict.add(test::verdict());
    verdict.report()
}

fn clippy() -> Outcome {
    let mut command = step::cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--locked"]);
    step::run(command.args(["--", "--deny=warnings"]))
}

fn with_toolchain(check: fn(&Toolchain) -> Outcome) -> Outcome {
    match Toolchain::find() {
        Ok(toolchain) => check(&toolchain),
        Err(missing) if std::env::var_os("CI").is_some() => Err(missing),
        Err(missing) => {
            println!("left out: {missing}");
            Ok(())
        }
    }
}
