//! Counters of processors (perf_event_open(2)): what all processes and the kernel do on one.
//!
//! In: a processor and an event. Out: a descriptor, which counts as long as it is open, and its
//! values. The kernel shares the counters of a processor among all that count: then each counts
//! for a part of the time, and the values say for which.

use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_BRANCH_INSTRUCTIONS, PERF_COUNT_HW_BRANCH_MISSES, PERF_COUNT_HW_CACHE_MISSES,
    PERF_COUNT_HW_CACHE_REFERENCES, PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_HW_INSTRUCTIONS,
    PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_MIGRATIONS, PERF_COUNT_SW_PAGE_FAULTS,
    PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING,
    PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use perf_event_open_sys::perf_event_open;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterEvent {
    /// Cycles of the processor.
    Cycles,
    /// Instructions that were executed.
    Instructions,
    /// Accesses to the last cache.
    CacheReferences,
    /// Those that were not in it.
    CacheMisses,
    /// Branch instructions.
    Branches,
    /// Those that were predicted wrongly.
    BranchMisses,
    /// Page faults.
    PageFaults,
    /// Switches to another thread.
    ContextSwitches,
    /// Threads that came from another processor.
    Migrations,
}

impl CounterEvent {
    /// All of them; those of the hardware first.
    pub const ALL: [Self; 9] = [
        Self::Cycles,
        Self::Instructions,
        Self::CacheReferences,
        Self::CacheMisses,
        Self::Branches,
        Self::BranchMisses,
        Self::PageFaults,
        Self::ContextSwitches,
        Self::Migrations,
    ];

    /// Whether the processor counts it, not the kernel.
    pub const fn is_hardware(self) -> bool {
        self.kernel().0 == PERF_TYPE_HARDWARE
    }

    /// Type and number of the event.
    const fn kernel(self) -> (u32, u32) {
        match self {
            Self::Cycles => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
            Self::Instructions => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS),
            Self::CacheReferences => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES),
            Self::CacheMisses => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES),
            Self::Branches => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS),
            Self::BranchMisses => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES),
            Self::PageFaults => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS),
            Self::ContextSwitches => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES),
            Self::Migrations => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS),
        }
    }
}

/// What a counter has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterValue {
    /// What it has counted.
    pub counted: u64,
    /// For how long it was open, in nanoseconds.
    pub enabled_ns: u64,
    /// For how long of that the processor has counted.
    pub running_ns: u64,
}

impl CounterValue {
    /// The count for the whole time, as if the processor had counted all of it; none if it never
    /// has.
    pub fn scaled(self) -> Option<u64> {
        if self.running_ns == self.enabled_ns {
            return Some(self.counted);
        }
        let whole = u128::from(self.counted) * u128::from(self.enabled_ns);
        let scaled = whole.checked_div(u128::from(self.running_ns))?;
        Some(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Whether the processor has counted for a part of the time only.
    pub const fn is_partial(self) -> bool {
        self.running_ns < self.enabled_ns
    }
}

/// An open counter.
#[derive(Debug)]
pub struct Counter(OwnedFd);

impl Counter {
    /// Counts from now on, on this processor.
    ///
    /// # Errors
    /// `ENOENT` or `EOPNOTSUPP` if nothing here counts the event, `EACCES` if the system keeps
    /// counters from this process, `ENODEV` for a processor that is off, `EMFILE` without a
    /// descriptor.
    pub fn open(cpu: u32, event: CounterEvent) -> io::Result<Self> {
        let (type_, config) = event.kernel();
        let mut attr = perf_event_attr {
            type_,
            size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or(0),
            config: config.into(),
            read_format: u64::from(PERF_FORMAT_TOTAL_TIME_ENABLED)
                | u64::from(PERF_FORMAT_TOTAL_TIME_RUNNING),
            ..perf_event_attr::default()
        };
        let cpu = i32::try_from(cpu).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        let flags = PERF_FLAG_FD_CLOEXEC.into();
        // SAFETY: the kernel reads the structure, whose size it contains.
        let fd = unsafe { perf_event_open(&raw mut attr, -1, cpu, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just created the descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Its values.
    ///
    /// # Errors
    /// When the kernel returns none, as of a processor that was turned off.
    pub fn read(&self) -> io::Result<CounterValue> {
        let mut bytes = [0; 24];
        if rustix::io::read(&self.0, &mut bytes)? != bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let number = |at: usize| {
            let part = bytes[at..at + 8].try_into().unwrap_or_default();
            u64::from_ne_bytes(part)
        };
        let (counted, enabled_ns, running_ns) = (number(0), number(8), number(16));
        Ok(CounterValue { counted, enabled_ns, running_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_time_is_scaled_to_the_whole() {
        let of = |counted, enabled_ns, running_ns| CounterValue { counted, enabled_ns, running_ns };
        assert_eq!((of(10, 5, 5).scaled(), of(10, 5, 5).is_partial()), (Some(10), false));
        assert_eq!((of(10, 8, 2).scaled(), of(10, 8, 2).is_partial()), (Some(40), true));
        assert_eq!(of(0, 8, 0).scaled(), None);
        assert_eq!(of(0, 0, 0).scaled(), Some(0));
        assert_eq!(of(u64::MAX, 8, 4).scaled(), Some(u64::MAX));
    }

    #[test]
    fn page_faults_of_a_processor_are_counted_if_this_user_may() {
        let counter = match Counter::open(0, CounterEvent::PageFaults) {
            Ok(counter) => counter,
            Err(error) => {
                assert!(
                    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::ENOSYS)),
                    "{error}"
                );
                return;
            }
        };
        let first = counter.read().expect("a value");
        assert!(!first.is_partial());
        assert!(counter.read().expect("a value").enabled_ns > first.enabled_ns);
        let odd = Counter::open(u32::MAX, CounterEvent::PageFaults);
        assert!(odd.is_err());
    }
}
