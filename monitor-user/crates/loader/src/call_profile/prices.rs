//! Measures what the probes of a profile cost, on a function of this process.
//!
//! In: the programs. Out: nanoseconds of each kind of probe, and how long an empty call seems to
//! take: the time from the start to the end that the probes add themselves.

use super::{CallProfiler, NO_ARGUMENT, ProfiledFile, ProfiledFunction};
use crate::rule::measured_prices::site;
use monitor_backend::Error;
use monitor_model::Pid;
use monitor_sys::probed_code;
use std::hint::black_box;
use std::time::Instant;

/// Calls in a batch, and batches: the fastest one counts, because whatever else runs here adds.
const CALLS: u64 = 50;
const BATCHES: u32 = 9;

/// What probes of a profile cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallPrices {
    /// A hit at a start: emulated, a five-byte NOP, single-stepped, ns.
    pub start_ns: [u64; 3],
    /// A hit at an end, ns.
    pub end_ns: u64,
    /// How long an empty call seems to take, by the kind of its start, ns.
    pub empty_ns: [u64; 3],
    /// The error of that: how far the times of batches are apart, ns.
    pub error_ns: u64,
}

/// Kinds of starts, in the order of the prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartKind {
    /// The kernel emulates the instruction.
    Emulated,
    /// A five-byte NOP.
    Patched,
    /// It is single-stepped.
    Stepped,
}

/// A function that does nothing.
type EmptyFunction = extern "C" fn();

/// A function with a start of each kind, and the offset of its return instruction.
const FUNCTIONS: [(EmptyFunction, u64); 3] = [
    (probed_code::call, probed_code::RETURN),
    (probed_code::patched_start, probed_code::PATCHED_RETURN),
    (probed_code::stepped_start, probed_code::STEPPED_RETURN),
];

impl CallPrices {
    /// Measures them.
    ///
    /// # Errors
    /// If the kernel refuses the programs or the probes.
    pub fn measure() -> Result<Self, Error> {
        let mut profiler = CallProfiler::load()?;
        let (count_argument, type_argument) = (NO_ARGUMENT, NO_ARGUMENT);
        let timed = ProfiledFunction { is_timed: 1, count_argument, type_argument, zero: 0 };
        profiler.set_functions(&[timed; 3])?;
        let own = Pid(std::process::id());
        let mut prices = Self { end_ns: u64::MAX, ..Self::default() };
        for (kind, (function, return_offset)) in (0..).zip(FUNCTIONS) {
            let start = site(function as usize)?;
            let starts = vec![(start.offset, kind)];
            let alone = ProfiledFile { path: start.path, starts, ..ProfiledFile::default() };
            let free_ns = batch_ns(function);
            let _lives = profiler.probe((0, own), std::slice::from_ref(&alone))?;
            let start_ns = batch_ns(function).saturating_sub(free_ns);
            let returns = vec![(start.offset + return_offset, kind)];
            let _lives = profiler.probe((0, own), &[ProfiledFile { returns, ..alone }])?;
            let mut times = Vec::new();
            for _ in 0..BATCHES {
                let before = profiler.time_of(kind);
                let end_ns = calls_ns(function).saturating_sub(free_ns + start_ns);
                prices.end_ns = prices.end_ns.min(end_ns / CALLS);
                times.push((profiler.time_of(kind) - before) / CALLS);
            }
            times.sort_unstable();
            let (shortest, median) = (times[0], times[times.len() / 2]);
            let index = kind as usize;
            (prices.start_ns[index], prices.empty_ns[index]) = (start_ns / CALLS, shortest);
            prices.error_ns = prices.error_ns.max(median - shortest);
        }
        Ok(prices)
    }

    /// The price of a start, ns.
    pub const fn start(&self, kind: StartKind) -> u64 {
        self.start_ns[kind as usize]
    }

    /// How long an empty call with such a start seems to take, ns.
    pub const fn empty(&self, kind: StartKind) -> u64 {
        self.empty_ns[kind as usize]
    }
}

impl CallProfiler {
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
