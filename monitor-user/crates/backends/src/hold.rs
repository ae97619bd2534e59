//! Processes that are held while they are watched, so that their end is known when it comes.
//!
//! In: an identity. Out: a descriptor of that very process, or nothing: it has ended, or somebody
//! else has its number by now.

use super::procfs;
use monitor_model::id::Identity;
use monitor_sys::clock;
use monitor_sys::pidfd::{Ends, Held};

/// Holds a process.
pub fn hold(ends: &Ends, id: Identity, mark: u64) -> Option<Held> {
    same(ends.hold(id.pid, mark).ok()?, id)
}

/// Holds a process whose end nobody waits for.
pub fn alone(id: Identity) -> Option<Held> {
    same(Held::open(id.pid).ok()?, id)
}

/// What is held, if it is the one that is meant.
fn same(held: Held, id: Identity) -> Option<Held> {
    // Who has the number after it was opened has had it ever since he began.
    let tick = clock::tick_ns();
    let same = procfs::started(id.pid)?.0 / tick == id.start.0 / tick;
    same.then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::{Ns, Pid};

    #[test]
    fn only_the_one_that_is_meant_is_held() {
        let ends = Ends::new().unwrap();
        let pid = Pid(std::process::id());
        let start = procfs::started(pid).unwrap();
        assert!(hold(&ends, Identity { pid, start }, 1).is_some());
        let earlier = Ns(start.0 - clock::tick_ns());
        assert!(hold(&ends, Identity { pid, start: earlier }, 1).is_none());
        assert!(alone(Identity { pid, start }).is_some());
        assert!(alone(Identity { pid, start: earlier }).is_none());
    }
}
