//! Reader of a process that its parent has waited for, by the address of its leader.
//!
//! The kernel frees a task a grace period after it was released. Until then the structures are
//! there, but no list has them, so the verifier knows no type for the pointer. The caller checks
//! afterwards that the task was not freed meanwhile.

use super::task::TASK;
use super::{constant, probe};
use crate::abi::Owner;
use crate::abi::lifecycle::ThreadWaits;
use crate::abi::offset::ABSENT;
use crate::abi::task::Sums;

/// The leader of a process, and its expected identity.
#[derive(Clone, Copy)]
pub struct Released {
    leader: *const u8,
    owner: Owner,
}

impl Released {
    /// The leader at this address; none without an address.
    #[inline(always)]
    pub fn new(address: u64, owner: Owner) -> Option<Self> {
        (address != 0).then_some(Self { leader: address as *const u8, owner })
    }

    /// The sums of all threads, and the waits of the leader; none if the process is not released
    /// yet, or is another one.
    #[inline(always)]
    pub fn totals(self) -> Option<(Sums, ThreadWaits)> {
        let signal: *const u8 = probe(self.leader, constant!(TASK.signal));
        // `__exit_signal` counts a thread down after it has added its sums.
        if probe::<u32>(signal, constant!(TASK.sig_threads)) != 0 {
            return None;
        }
        let sums = Sums {
            exec_ns: probe(signal, constant!(TASK.sig_exec_runtime)),
            user_ns: probe(signal, constant!(TASK.sig_utime)),
            system_ns: probe(signal, constant!(TASK.sig_stime)),
            voluntary_switches: probe(signal, constant!(TASK.sig_nvcsw)),
            involuntary_switches: probe(signal, constant!(TASK.sig_nivcsw)),
            minor_faults: probe(signal, constant!(TASK.sig_min_flt)),
            major_faults: probe(signal, constant!(TASK.sig_maj_flt)),
            // The kernel has added it to the parent.
            io: [0; 7],
        };
        let waited = ThreadWaits {
            run_delay_ns: self.scheduled(constant!(TASK.run_delay)),
            run_count: self.scheduled(constant!(TASK.run_count)),
        };
        self.is_the_owner().then_some((sums, waited))
    }

    #[inline(always)]
    fn is_the_owner(self) -> bool {
        probe::<u32>(self.leader, constant!(TASK.tgid)) == self.owner.tgid
            && probe::<u64>(self.leader, constant!(TASK.start_boottime))
                == self.owner.start_boottime_ns
    }

    /// A number of `sched_info`, which a kernel may lack.
    #[inline(always)]
    fn scheduled(self, offset: u32) -> u64 {
        if offset == ABSENT { 0 } else { probe(self.leader, offset) }
    }
}
