//! The clocks of a sample and of BPF programs, and the ticks of the scheduler and of `/proc`.
//!
//! Out: nanoseconds. Tests replace time above this crate, not here.

use monitor_model::{id::Ns, sample::Instant};
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// The current time on the boot clock and the wall clock.
pub fn now() -> Instant {
    Instant { boot: boot(), unix: read(ClockId::Realtime) }
}

/// The wall clock less the boot clock: it changes only when the wall clock is set.
pub fn realtime_offset() -> Ns {
    let Instant { boot, unix } = now();
    unix.since(boot)
}

/// The current time on `CLOCK_BOOTTIME`, the clock of process start times; it includes suspend.
pub fn boot() -> Ns {
    read(ClockId::Boottime)
}

/// The current time on `CLOCK_MONOTONIC`, which `bpf_ktime_get_ns` reads; it excludes suspend.
pub fn monotonic() -> Ns {
    read(ClockId::Monotonic)
}

/// CPU time used by all threads of this process.
pub fn process_cpu() -> Ns {
    read(ClockId::ProcessCPUTime)
}

/// CPU time used by this thread.
pub fn thread_cpu() -> Ns {
    read(ClockId::ThreadCPUTime)
}

/// Nanoseconds per tick, the unit of times in `/proc` (`USER_HZ`, 100 on all machines).
pub fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// The tick of the scheduler, which counts the time of running threads (`CONFIG_HZ`).
pub fn scheduler_tick() -> Ns {
    // The kernel updates its coarse clocks with it.
    nanoseconds(clock_getres(ClockId::MonotonicCoarse))
}

fn read(clock: ClockId) -> Ns {
    nanoseconds(clock_gettime(clock))
}

fn nanoseconds(time: Timespec) -> Ns {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Ns(seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0))
}
