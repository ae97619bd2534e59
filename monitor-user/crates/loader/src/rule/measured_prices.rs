//! Measures what a probe adds to a call, on a function of this process.
//!
//! In: the rules. Out: nanoseconds of each kind of probe. The probes are only in this process, and
//! are removed before this returns; nothing but the measurement calls the function.

use super::encode::unsupported;
use monitor_backend::Error;
use monitor_backend::rule::call_prices::CallPrices;
use monitor_backend::rule::insn::{CellKind, Insn};
use monitor_backend::rule::{HookPoint, RuleProgram, RuleResource, Rules, Site};
use monitor_model::Pid;
use monitor_proc::maps;
use monitor_sys::probed_code;
use std::{hint::black_box, path::Path, time::Instant};

/// The probed file.
const SELF: &str = "/proc/self/exe";
/// Calls in a batch, and batches: the fastest one counts, because whatever else runs here adds.
const CALLS: u32 = 50;
const BATCHES: u32 = 9;

/// Measures all kinds.
pub fn measure(rules: &mut dyn Rules) -> Result<CallPrices, Error> {
    let site = site(probed_code::call as extern "C" fn() as usize)?;
    let at = |distance| Site { path: site.path.clone(), offset: site.offset + distance };
    let free_ns = batch_ns();
    let mut price = |hook| -> Result<u64, Error> {
        Ok(probed_ns(rules, hook)?.saturating_sub(free_ns) / u64::from(CALLS))
    };
    let emulated_ns = price(HookPoint::Entry(at(probed_code::EMULATED)))?;
    let by_trampoline_ns = price(HookPoint::Trampoline(at(probed_code::EMULATED)))?;
    Ok(CallPrices {
        emulated_ns,
        patched_ns: price(HookPoint::Entry(at(probed_code::PATCHED)))?,
        stepped_ns: price(HookPoint::Ends(vec![at(probed_code::RETURN)]))?,
        trampoline_ns: by_trampoline_ns.saturating_sub(emulated_ns),
    })
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

/// The fastest batch with a probe that counts the calls.
fn probed_ns(rules: &mut dyn Rules, hook: HookPoint) -> Result<u64, Error> {
    let cell = rules.make_cell(CellKind::Sum)?;
    let program = RuleProgram::new(hook, None, vec![Insn::Count(cell)]);
    let process = Some(Pid(std::process::id()));
    let measured = rules.add(&RuleProgram { process, ..program }).and_then(|id| {
        rules.enable(id);
        let (ns, seen) = (batch_ns(), rules.cell(cell));
        rules.remove(id);
        match seen {
            Some(1..) => Ok(ns),
            _ => Err(unsupported("calls of a probed function are not seen".into(), "see doctor")),
        }
    });
    rules.free(RuleResource::Cell(cell));
    measured
}

/// Nanoseconds of the fastest batch.
fn batch_ns() -> u64 {
    let function: extern "C" fn() = black_box(probed_code::call);
    let batch = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| function());
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    };
    (0..BATCHES).map(batch).min().unwrap_or(0)
}
