//! Self-test of uprobes: whether function calls can be traced here, and what a probed call costs.
//!
//! In: nothing; a function of this program is probed and called. Out: the state of library calls,
//! for `doctor`, and the prices of probes. Nothing stays attached; rules of clients are not
//! affected.

use super::{KernelRules, measured_prices::site};
use crate::health;
use monitor_backend::Error;
use monitor_backend::rule::insn::{CellKind, Insn};
use monitor_backend::rule::{HookPoint, RuleProgram, Rules as _};
use monitor_model::{Capability, Health, Pid, Probe};
use std::hint::black_box;

/// Number of calls.
const ROUNDS: u64 = 100;
/// The hook of the start and the end of a call.
const HOOK: &str = "uprobe";

/// Runs the test.
pub fn run() -> Probe {
    match trace_calls() {
        Ok(probe) => probe,
        Err(error) => {
            Probe { health: health::refused(&error), ..Probe::off(Capability::LibraryCalls) }
        }
    }
}

/// Calls the probed function, and compares the counts.
fn trace_calls() -> Result<Probe, Error> {
    let mut rules = KernelRules::open()?;
    let counts = [rules.make_cell(CellKind::Sum)?, rules.make_cell(CellKind::Sum)?];
    let site = site(called as extern "C" fn(u64) -> u64 as usize)?;
    let hooks = [HookPoint::Entry(site.clone()), HookPoint::Ends(vec![site])];
    for (hook, count) in hooks.into_iter().zip(counts) {
        let program = RuleProgram::new(hook, None, vec![Insn::Count(count)]);
        let program = RuleProgram { process: Some(Pid(std::process::id())), ..program };
        let id = rules.add(&program)?;
        rules.enable(id);
    }
    let function: extern "C" fn(u64) -> u64 = black_box(called);
    for round in 0..ROUNDS {
        let _ = black_box(function(round));
    }
    let events = counts.map(|it| rules.cell(it).and_then(|n| u64::try_from(n).ok()).unwrap_or(0));
    let _prices = rules.measure_call_prices();
    let probe = health::probe(Capability::LibraryCalls, &rules.object, 0);
    // Other processes of this program may have called it too.
    let health = match events.iter().find(|seen| **seen < ROUNDS) {
        Some(seen) => Health::Failed { error: format!("{seen} of {ROUNDS} calls were counted") },
        None => probe.health,
    };
    Ok(Probe { health, events: Some(events[0]), hooks: vec![HOOK.to_owned()], ..probe })
}

/// The probed function.
#[inline(never)]
extern "C" fn called(round: u64) -> u64 {
    black_box(round)
}
