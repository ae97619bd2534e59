//! When to look again who holds which socket: that takes a pass over every open file of the node.
//!
//! In: processes, sockets, and how many connections were accepted. Out: yes or no. Between two
//! looks a socket is read directly and belongs to whom it belonged, so a look is due whenever that
//! may have changed: somebody accepted one, shares one, has a new child, or is gone. A socket
//! handed over by message (`SCM_RIGHTS`) tells nobody; it is found within [`AT_LEAST_EVERY`].

use super::owner;
use monitor_ebpf::abi::Owner;
use monitor_ebpf::abi::tcp::Open;
use monitor_model::field::ProcessField as F;
use monitor_model::id::Ns;
use monitor_model::sample::Process;
use std::collections::HashSet;

/// Longest between two looks.
const AT_LEAST_EVERY: Ns = Ns(10_000_000_000);

/// What was known at the last look.
#[derive(Default)]
pub struct Holders {
    looked: Option<Ns>,
    accepted: u64,
    /// Owners of connections.
    owners: HashSet<Owner>,
    shares: bool,
}

impl Holders {
    /// Whether somebody may hold what he did not hold at the last look.
    pub fn look_is_due(&self, processes: &[Process], accepted: u64, now: Ns) -> bool {
        let Some(looked) = self.looked else { return true };
        self.shares
            || accepted != self.accepted
            || now.since(looked) >= AT_LEAST_EVERY
            || self.owners.iter().any(|owner| is_gone(processes, *owner))
            || processes.iter().any(|process| process.id.start >= looked && self.made(process))
    }

    fn made(&self, child: &Process) -> bool {
        let parent = child.row.get(F::Ppid);
        self.owners.iter().any(|owner| Some(u64::from(owner.tgid)) == parent)
    }

    /// Notes that a look began at this time.
    pub const fn looked(&mut self, accepted: u64, now: Ns) {
        self.looked = Some(now);
        self.accepted = accepted;
    }

    /// Notes whose the sockets are. One that carries nothing, such as a listener, may be shared
    /// without harm.
    pub fn learn(&mut self, sockets: &[Open]) {
        let connections = sockets.iter().filter(|open| open.srtt_us8 != 0);
        self.owners = connections.clone().map(|open| open.owner).collect();
        self.shares = connections.clone().any(|open| open.is_shared != 0);
    }
}

fn is_gone(processes: &[Process], owner: Owner) -> bool {
    owner::find(processes, owner).is_none_or(|index| processes[index].ended())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::decode;

    const HOLDER: Owner = Owner { start_boottime_ns: 5, tgid: 7, zero: 0 };

    fn process(owner: Owner, parent: u64) -> Process {
        let mut it = Process { id: decode::identity(owner), ..Process::default() };
        it.row.set(F::Ppid, parent);
        it
    }

    /// After a look at second 1 that found a connection of `HOLDER`: is one due a second later?
    #[track_caller]
    fn check(is_shared: u32, processes: &[Process], accepted: u64, due: bool) {
        let mut holders = Holders::default();
        assert!(holders.look_is_due(processes, 0, Ns(0)), "the first look");
        holders.looked(3, Ns(1_000_000_000));
        holders.learn(&[Open { owner: HOLDER, srtt_us8: 8, is_shared, ..Open::default() }]);
        assert_eq!(holders.look_is_due(processes, accepted, Ns(2_000_000_000)), due);
        assert!(holders.look_is_due(processes, accepted, Ns(11_000_000_000)), "after ten seconds");
    }

    #[test]
    fn nothing_new_needs_no_look() {
        check(0, &[process(HOLDER, 1)], 3, false);
    }

    #[test]
    fn an_accepted_or_shared_connection_or_one_without_its_owner_needs_a_look() {
        check(0, &[process(HOLDER, 1)], 4, true);
        check(1, &[process(HOLDER, 1)], 3, true);
        check(0, &[], 3, true);
    }

    #[test]
    fn a_new_child_of_a_holder_needs_a_look() {
        let child = |start| Owner { start_boottime_ns: start, tgid: 9, zero: 0 };
        check(0, &[process(HOLDER, 1), process(child(1_500_000_000), 7)], 3, true);
        check(0, &[process(HOLDER, 1), process(child(500_000_000), 7)], 3, false);
        check(0, &[process(HOLDER, 1), process(child(1_500_000_000), 1)], 3, false);
    }
}
