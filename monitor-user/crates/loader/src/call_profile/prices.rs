//! Measures what the probes of a profile cost, on functions of this process.
//!
//! In: how ends are seen, and how probes are set. Out: nanoseconds of each kind of probe, and how
//! long an empty call seems to take: the time from the start to the end that the probes add
//! themselves.

use super::KernelCallProfiler;
use crate::rule::measured_prices::{SELF, site};
use crate::rule::probed_batches::{CALLS, EmptyFunction, ROUNDS, batch_ns, fastest_batches};
use monitor_backend::Error;
use monitor_backend::call_profile::{
    CallEnds, CallProbePrices, CallProfiler, NO_ARGUMENT, ProbeLinks, ProfiledFile,
    ProfiledFunction,
};
use monitor_model::Pid;
use monitor_sys::probed_code;
use std::sync::Mutex;

/// Held while they are measured.
static MEASURING: Mutex<()> = Mutex::new(());

/// A function with a start of each kind, and the offset of its return instruction.
const FUNCTIONS: [(EmptyFunction, u64); 3] = [
    (probed_code::call, probed_code::RETURN),
    (probed_code::patched_start, probed_code::PATCHED_RETURN),
    (probed_code::stepped_start, probed_code::STEPPED_RETURN),
];

/// Measures them; without ends, the price of one is 0.
fn measure(ends: CallEnds, links: ProbeLinks) -> Result<CallProbePrices, Error> {
    // Another thread that measures would call the same functions.
    let _turn = MEASURING.lock();
    let mut profiler = KernelCallProfiler::load(links)?;
    let (count_argument, type_argument) = (NO_ARGUMENT, NO_ARGUMENT);
    let ends_byte = ends.in_kernel();
    let timed = ProfiledFunction { ends: ends_byte, count_argument, type_argument, zero: 0 };
    profiler.set_functions(&[timed; 3])?;
    let own = Pid(std::process::id());
    let start = |(kind, (function, _)): (u32, (EmptyFunction, u64))| {
        Ok((site(function as usize)?.offset, kind))
    };
    let starts = (0..).zip(FUNCTIONS).map(start).collect::<Result<Vec<_>, Error>>()?;
    let (path, functions) = (SELF.into(), FUNCTIONS.map(|(function, _)| function));
    let alone = ProfiledFile { path, starts: starts.clone(), ..ProfiledFile::default() };
    let free_ns = fastest_batches(functions);
    let _lives = profiler.probe((0, own), std::slice::from_ref(&alone))?;
    let started_ns = fastest_batches(functions);
    let mut prices = CallProbePrices::default();
    for (price, (started, free)) in prices.start_ns.iter_mut().zip(started_ns.iter().zip(free_ns)) {
        *price = started.saturating_sub(free) / CALLS;
    }
    let returns = starts.iter().zip(FUNCTIONS).map(|((start, kind), (_, at))| (start + at, *kind));
    let probed = match ends {
        CallEnds::Unseen => return Ok(prices),
        CallEnds::Instructions => ProfiledFile { returns: returns.collect(), ..alone },
        CallEnds::Trampolines => ProfiledFile { trampolines: starts.clone(), ..alone },
    };
    let _lives = profiler.probe((0, own), &[probed])?;
    let (mut end_ns, mut empty_ns) = (u64::MAX, [const { Vec::new() }; FUNCTIONS.len()]);
    for _ in 0..ROUNDS {
        for (kind, function) in (0..).zip(functions) {
            let index = kind as usize;
            let before = profiler.time_of(kind);
            let added_ns = batch_ns(function).saturating_sub(started_ns[index]);
            end_ns = end_ns.min(added_ns / CALLS);
            empty_ns[index].push((profiler.time_of(kind) - before) / CALLS);
        }
    }
    for (empty, mut times) in prices.empty_ns.iter_mut().zip(empty_ns) {
        times.sort_unstable();
        let (shortest, median) = (times[0], times[times.len() / 2]);
        *empty = shortest;
        prices.error_ns = prices.error_ns.max(median - shortest);
    }
    prices.end_ns = end_ns;
    Ok(prices)
}

impl KernelCallProfiler {
    /// Loads the programs, and measures what their probes cost.
    ///
    /// # Errors
    /// If the kernel is older than 5.15, privileges are missing, or the machine is no x86.
    pub fn open(ends: CallEnds, links: ProbeLinks) -> Result<Box<dyn CallProfiler>, Error> {
        let prices = measure(ends, links)?;
        let mut profiler = Self::load(links)?;
        profiler.prices = prices;
        Ok(Box::new(profiler))
    }

    /// The time of all calls of a function, ns.
    fn time_of(&self, function: u32) -> u64 {
        let of_function = self.sums().into_iter().filter(|(site, _)| site.function == function);
        of_function.map(|(_, sums)| sums.time_ns).sum()
    }
}
