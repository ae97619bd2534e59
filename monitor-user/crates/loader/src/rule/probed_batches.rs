//! Times empty functions of this process, in batches.
//!
//! In: functions, with probes or without. Out: nanoseconds of the fastest batch of each. Each round
//! has a batch of each function, so that a slower moment of the machine slows all of them; the
//! fastest counts, because whatever else runs here adds.

use std::hint::black_box;
use std::time::Instant;

/// Calls in a batch.
pub const CALLS: u64 = 50;
/// Batches of each function.
pub const ROUNDS: u32 = 15;

/// A function that does nothing.
pub type EmptyFunction = extern "C" fn();

/// Nanoseconds of the fastest batch of each function.
pub fn fastest_batches<const N: usize>(functions: [EmptyFunction; N]) -> [u64; N] {
    let mut fastest = [u64::MAX; N];
    for _ in 0..ROUNDS {
        for (fastest, function) in fastest.iter_mut().zip(functions) {
            *fastest = batch_ns(function).min(*fastest);
        }
    }
    fastest
}

/// Nanoseconds of a batch.
pub fn batch_ns(function: EmptyFunction) -> u64 {
    let function = black_box(function);
    let start = Instant::now();
    (0..CALLS).for_each(|_| function());
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
