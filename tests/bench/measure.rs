//! Measures CPU time, and describes the machine.

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// CPU time of this process, in nanoseconds.
fn cpu_ns() -> f64 {
    clock_ns(ClockId::ProcessCPUTime)
}

/// CPU time of this thread, in nanoseconds.
pub fn thread_ns() -> f64 {
    clock_ns(ClockId::ThreadCPUTime)
}

fn clock_ns(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Pins this thread to the last processor.
pub fn pin() {
    let mut last = CpuSet::new();
    last.set(std::thread::available_parallelism().unwrap().get() - 1);
    sched_setaffinity(None, &last).unwrap();
}

/// Number of processors.
pub fn n_processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A named operation to measure.
pub type Operation<'a> = (&'a str, Box<dyn FnMut() + 'a>);

/// Median CPU microseconds of several operations, run in turn so that changes of the machine affect
/// all of them.
pub fn medians<'a>(rounds: usize, operations: &mut [Operation<'a>]) -> Vec<(&'a str, f64)> {
    let mut taken = vec![Vec::with_capacity(rounds); operations.len()];
    for _ in 0..rounds {
        for ((_, operation), taken) in operations.iter_mut().zip(&mut taken) {
            let before = cpu_ns();
            operation();
            taken.push((cpu_ns() - before) / 1e3);
        }
    }
    operations.iter().map(|(name, _)| *name).zip(taken.into_iter().map(median)).collect()
}

/// The middle value.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Kernel, processor, memory and load.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let line = |text: &str, key: &str| {
        let found = text.lines().find(|line| line.starts_with(key));
        found.and_then(|line| line.split(':').nth(1)).unwrap_or("?").trim().to_owned()
    };
    format!(
        "Linux {} on {} x {}, memory {}, load {}",
        read("/proc/sys/kernel/osrelease").trim(),
        std::thread::available_parallelism().map_or(0, usize::from),
        line(&read("/proc/cpuinfo"), "model name"),
        line(&read("/proc/meminfo"), "MemTotal"),
        load(),
    )
}

/// Load average of the last minute.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
