//! Runs inputs, and limits the time and the memory of each.
//!
//! In: how an input is made, and what reads it. Out: a line with counts on standard error; a panic
//! where an input panics, takes too much memory, or takes too long (which ends the program). The
//! message has the seed and the number of the input, which make it again:
//! `MONITOR_FUZZ_SEED=S MONITOR_FUZZ_FIRST=N MONITOR_FUZZ_INPUTS=1`.

use super::input::Random;
use rustix::time::{ClockId, clock_gettime};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Inputs of each border in the ordinary run.
const INPUTS: u64 = 2_000;
/// The seed of the ordinary run.
const SEED: u64 = 1996;
/// Time that an input may take.
const MAX_TIME: Duration = Duration::from_secs(30);
/// Memory that an input may take, unless its border says otherwise.
pub const MAX_MEMORY: u64 = 16 << 20;
/// How much of an input is printed.
const SHOWN: usize = 300;

/// A border.
#[derive(Clone, Copy)]
pub struct Border {
    /// Its name.
    pub name: &'static str,
    /// Memory that an input may take, in bytes.
    pub max_memory: u64,
}

fn given(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

/// Runs inputs until there were as many as wanted, or the time of this border is over.
pub fn run(
    border: Border,
    mut make: impl FnMut(&mut Random) -> Vec<u8>,
    mut read: impl FnMut(&[u8]),
) {
    let seed = given("MONITOR_FUZZ_SEED").unwrap_or(SEED);
    let first = given("MONITOR_FUZZ_FIRST").unwrap_or(0);
    let wanted = given("MONITOR_FUZZ_INPUTS").unwrap_or(INPUTS);
    let time = given("MONITOR_FUZZ_SECONDS").map_or(Duration::MAX, Duration::from_secs);
    let current = AtomicU64::new(first);
    let (start, mut slowest, mut largest) = (Instant::now(), (Duration::ZERO, first), 0);
    let mut last = first;
    std::thread::scope(|scope| {
        // Dropped at the end, which ends the watch.
        let (_running, over) = channel();
        let _watch = scope.spawn(|| watch(border, seed, &current, over));
        for number in first..first.saturating_add(wanted) {
            if start.elapsed() > time {
                break;
            }
            current.store(number, Ordering::Relaxed);
            let bytes = make(&mut Random::new(seed, number));
            let (begun, mut result) = (cpu_time(), Ok(()));
            let allocated = allocation_counter::measure(|| {
                result = catch_unwind(AssertUnwindSafe(|| read(&bytes)));
            });
            let memory = allocated.bytes_max;
            if result.is_err() || memory > border.max_memory {
                let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii();
                let length = bytes.len();
                eprintln!(
                    "{}: seed {seed}, input {number}, {length} bytes, {memory} bytes of memory: \
                     {shown}",
                    border.name
                );
            }
            if let Err(panicked) = result {
                resume_unwind(panicked);
            }
            assert!(memory <= border.max_memory, "{}: {memory} bytes of memory", border.name);
            slowest = slowest.max((cpu_time().saturating_sub(begun), number));
            largest = largest.max(memory);
            last = number + 1;
        }
    });
    let (n, seconds) = (last - first, start.elapsed().as_secs_f64());
    eprintln!(
        "{:<22} {n:>10} inputs, {seconds:>7.1} s, {:>6.1} us each, slowest {:>6.1} ms (input \
         {}), at most {:>6} KiB",
        border.name,
        seconds * 1e6 / n.max(1) as f64,
        slowest.0.as_secs_f64() * 1e3,
        slowest.1,
        largest >> 10,
    );
}

/// Processor time of this thread: what else the machine does makes no input slow.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// Ends the program if one input takes too long.
fn watch(border: Border, seed: u64, current: &AtomicU64, over: Receiver<()>) {
    let (mut number, mut since) = (u64::MAX, Instant::now());
    while over.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
        let now = current.load(Ordering::Relaxed);
        if now != number {
            (number, since) = (now, Instant::now());
        } else if since.elapsed() > MAX_TIME {
            eprintln!("{}: seed {seed}, input {number} takes over {MAX_TIME:?}", border.name);
            std::process::abort();
        }
    }
}
