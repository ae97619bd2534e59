//! The two clocks of a sample, the one of the programs, and the tick that `/proc` counts in.

use monitor_model::id::Ns;
use monitor_model::sample::Instant;
use rustix::time::{ClockId, clock_gettime};

/// Now, on both clocks.
pub fn now() -> Instant {
    Instant { boot: boot(), unix: read(ClockId::Realtime) }
}

/// Now, on `CLOCK_BOOTTIME`, which start times are measured on and which counts sleep.
pub fn boot() -> Ns {
    read(ClockId::Boottime)
}

/// Now, on `CLOCK_MONOTONIC`, which programs read (`bpf_ktime_get_ns`) and which stops in sleep.
pub fn monotonic() -> Ns {
    read(ClockId::Monotonic)
}

/// CPU time that our own process has used, all its threads together.
pub fn own_cpu() -> Ns {
    read(ClockId::ProcessCPUTime)
}

/// Nanoseconds in a tick, the unit of times in `/proc` (`USER_HZ`, 100 on all machines).
pub fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

fn read(clock: ClockId) -> Ns {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ns(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
}
