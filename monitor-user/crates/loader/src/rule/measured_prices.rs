//! Measures what a probe adds to a call, on functions of this process.
//!
//! In: the rules. Out: nanoseconds of each kind of probe. The probes are only in this process, and
//! are removed before this returns; nothing but the measurement calls the functions.

use super::encode::unsupported;
use super::probed_batches::{CALLS, fastest_batches};
use monitor_backend::Error;
use monitor_backend::rule::call_prices::CallPrices;
use monitor_backend::rule::insn::{Cell, CellKind, Insn};
use monitor_backend::rule::{HookPoint, ProgramId, RuleProgram, RuleResource, Rules, Site};
use monitor_model::Pid;
use monitor_proc::maps;
use monitor_sys::probed_code::{self, COPIES};
use std::path::Path;

/// The probed file.
pub const SELF: &str = "/proc/self/exe";

/// A kind of probe at an instruction of the functions.
type ProbeAt = fn(Site) -> HookPoint;

/// The probes of the copies; the first copy has none.
const PROBES: [(ProbeAt, u64); COPIES.len() - 1] = [
    (HookPoint::Entry, probed_code::EMULATED),
    (HookPoint::Entry, probed_code::PATCHED),
    (|site| HookPoint::Ends(vec![site]), probed_code::RETURN),
    (HookPoint::Trampoline, probed_code::EMULATED),
];

/// Measures all kinds.
pub fn measure(rules: &mut dyn Rules) -> Result<CallPrices, Error> {
    let mut probes = Vec::new();
    let measured = attach(rules, &mut probes).and_then(|()| {
        let fastest = fastest_batches(COPIES);
        let seen = probes.iter().all(|(_, cell)| rules.cell(*cell) > Some(0));
        seen.then_some(fastest).ok_or_else(|| {
            unsupported("calls of a probed function are not seen".into(), "see doctor")
        })
    });
    for (program, cell) in probes {
        rules.remove(program);
        rules.free(RuleResource::Cell(cell));
    }
    let [free, probed @ ..] = measured?;
    let [emulated_ns, patched_ns, stepped_ns, by_trampoline_ns] =
        probed.map(|ns| ns.saturating_sub(free) / CALLS);
    let trampoline_ns = by_trampoline_ns.saturating_sub(emulated_ns);
    Ok(CallPrices { emulated_ns, patched_ns, stepped_ns, trampoline_ns })
}

/// Sets a probe that counts the calls on each copy but the first, and enables it.
fn attach(rules: &mut dyn Rules, probes: &mut Vec<(ProgramId, Cell)>) -> Result<(), Error> {
    for ((probe_at, distance), copy) in PROBES.into_iter().zip(&COPIES[1..]) {
        let start = site(*copy as usize)?;
        let hook = probe_at(Site { offset: start.offset + distance, ..start });
        let cell = rules.make_cell(CellKind::Sum)?;
        let process = Some(Pid(std::process::id()));
        let program = RuleProgram::new(hook, None, vec![Insn::Count(cell)]);
        let added = rules.add(&RuleProgram { process, ..program });
        let program = added.inspect_err(|_| rules.free(RuleResource::Cell(cell)))?;
        rules.enable(program);
        probes.push((program, cell));
    }
    Ok(())
}

/// Site of a function in the file of this program, by its address.
pub fn site(address: usize) -> Result<Site, Error> {
    let address = address as u64;
    let failed = |source| Error::kernel("read", "/proc/self/maps", source);
    let mapped = maps::mappings(Path::new("/proc"), Pid(std::process::id())).map_err(failed)?;
    let mapping = mapped.iter().find(|it| (it.start..it.end).contains(&address));
    let mapping =
        mapping.ok_or_else(|| Error::malformed("/proc/self/maps", "the code of this program"))?;
    Ok(Site { path: SELF.into(), offset: address - mapping.start + mapping.offset })
}
