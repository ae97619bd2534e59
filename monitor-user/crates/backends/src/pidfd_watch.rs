//! Pidfds of watched processes, so that their exit is noticed immediately.
//!
//! In: an identity. Out: a pidfd of that process, or none: it has ended, or its pid was reused.

use super::procfs;
use monitor_model::Identity;
use monitor_sys::clock;
use monitor_sys::pidfd::{ExitWatch, PidFd};

/// Opens a pidfd and watches it for the exit.
pub fn watch(ends: &ExitWatch, id: Identity, mark: u64) -> Option<PidFd> {
    same(ends.watch(id.pid, mark).ok()?, id)
}

/// Opens a pidfd without watching it.
pub fn open(id: Identity) -> Option<PidFd> {
    same(PidFd::open(id.pid).ok()?, id)
}

/// The pidfd, if it belongs to the process with this identity.
fn same(held: PidFd, id: Identity) -> Option<PidFd> {
    // A process that has the pid after the pidfd was opened has had it since its start.
    let tick = clock::tick_ns();
    let same = procfs::start_time(id.pid)?.0 / tick == id.start.0 / tick;
    same.then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::{Ns, Pid};

    #[test]
    fn only_the_process_with_the_identity_is_opened() {
        let ends = ExitWatch::new().unwrap();
        let pid = Pid(std::process::id());
        let start = procfs::start_time(pid).unwrap();
        assert!(watch(&ends, Identity { pid, start }, 1).is_some());
        let earlier = Ns(start.0 - clock::tick_ns());
        assert!(watch(&ends, Identity { pid, start: earlier }, 1).is_none());
        assert!(open(Identity { pid, start }).is_some());
        assert!(open(Identity { pid, start: earlier }).is_none());
    }
}
