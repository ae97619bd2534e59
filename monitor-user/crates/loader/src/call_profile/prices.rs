//! Measures what the probes of a profile cost, on functions of this process.
//!
//! In: how ends are seen, and how probes are set. Out: nanoseconds of each kind of probe, and how
//! long an empty call seems to take: the time from the start to the end that the probes add
//! themselves.

use super::KernelCallProfiler;
use crate::rule::measured_prices::site;
use monitor_backend::Error;
use monitor_backend::call_profile::{
    CallEnds, CallProbePrices, CallProfiler, NO_ARGUMENT, ProbeLinks, ProfiledFile,
    ProfiledFunction,
};
use monitor_model::Pid;
use monitor_sys::probed_code;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

/// Calls in a batch, and batches: the fastest one counts, because whatever else runs here adds.
const CALLS: u64 = 50;
const BATCHES: u32 = 9;

/// Held while they are measured.
static MEASURING: Mutex<()> = Mutex::new(());

/// A function that does nothing.
type EmptyFunction = extern "C" fn();

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
    let mut prices = CallProbePrices::default();
    let mut each_end_ns = Vec::new();
    for (kind, (function, return_offset)) in (0..).zip(FUNCTIONS) {
        let start = site(function as usize)?;
        let starts = vec![(start.offset, kind)];
        let alone = ProfiledFile { path: start.path, starts, ..ProfiledFile::default() };
        let free_ns = batch_ns(function);
        let _lives = profiler.probe((0, own), std::slice::from_ref(&alone))?;
        let start_ns = batch_ns(function).saturating_sub(free_ns);
        let index = kind as usize;
        prices.start_ns[index] = start_ns / CALLS;
        let probed = match ends {
            CallEnds::Unseen => continue,
            CallEnds::Instructions => {
                ProfiledFile { returns: vec![(start.offset + return_offset, kind)], ..alone }
            }
            CallEnds::Trampolines => {
                ProfiledFile { trampolines: vec![(start.offset, kind)], ..alone }
            }
        };
        let _lives = profiler.probe((0, own), &[probed])?;
        let mut times = Vec::new();
        for _ in 0..BATCHES {
            let before = profiler.time_of(kind);
            let end_ns = calls_ns(function).saturating_sub(free_ns + start_ns);
            each_end_ns.push(end_ns / CALLS);
            times.push((profiler.time_of(kind) - before) / CALLS);
        }
        times.sort_unstable();
        let (shortest, median) = (times[0], times[times.len() / 2]);
        prices.empty_ns[index] = shortest;
        prices.error_ns = prices.error_ns.max(median - shortest);
    }
    prices.end_ns = each_end_ns.into_iter().min().unwrap_or(0);
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

/// Nanoseconds of the fastest batch.
fn batch_ns(function: EmptyFunction) -> u64 {
    (0..BATCHES).map(|_| calls_ns(function)).min().unwrap_or(0)
}

/// Nanoseconds of a batch.
fn calls_ns(function: EmptyFunction) -> u64 {
    let function = black_box(function);
    let start = Instant::now();
    (0..CALLS).for_each(|_| function());
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
