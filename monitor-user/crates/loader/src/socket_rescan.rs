//! When to scan for the holders of sockets: a scan iterates over every open file of the node.
//!
//! In: processes, sockets, and the number of accepted connections. Out: whether a scan is due.
//! Between scans sockets are read directly and keep their owner, so a scan is due when owners may
//! have changed: a connection was accepted, a socket is shared, an owner has a new child or has
//! ended. A socket passed by message (`SCM_RIGHTS`) is not noticed; its new holder is found within
//! [`MAX_INTERVAL`], and until then what the socket carries counts for the former one.

use crate::owner;
use monitor_ebpf::{abi::Owner, abi::tcp::OpenSocket};
use monitor_model::{Ns, Process, field::ProcessField as F};
use std::collections::HashSet;

/// Maximum interval between scans.
const MAX_INTERVAL: Ns = Ns(10_000_000_000);

/// State at the last scan.
#[derive(Default)]
pub struct SocketRescan {
    scanned: Option<Ns>,
    accepted: u64,
    /// Owners of connections.
    owners: HashSet<Owner>,
    shares: bool,
}

impl SocketRescan {
    /// Whether owners may have changed since the last scan.
    pub fn is_due(&self, processes: &[Process], accepted: u64, now: Ns) -> bool {
        let Some(scanned) = self.scanned else { return true };
        self.shares
            || accepted != self.accepted
            || now.since(scanned) >= MAX_INTERVAL
            || self.owners.iter().any(|owner| is_gone(processes, *owner))
            || processes
                .iter()
                .any(|process| process.id.start >= scanned && self.has_parent(process))
    }

    fn has_parent(&self, child: &Process) -> bool {
        let parent = child.row.get(F::Ppid);
        self.owners.iter().any(|owner| Some(u64::from(owner.tgid)) == parent)
    }

    /// Records that a scan started at this time.
    pub const fn record_scan(&mut self, accepted: u64, now: Ns) {
        self.scanned = Some(now);
        self.accepted = accepted;
    }

    /// Records the owners of the sockets. Sharing a socket without traffic, such as a listener, is
    /// irrelevant.
    pub fn learn(&mut self, sockets: &[OpenSocket]) {
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
    use crate::decode;

    const HOLDER: Owner = Owner { start_boottime_ns: 5, tgid: 7, zero: 0 };

    fn process(owner: Owner, parent: u64) -> Process {
        let mut it = Process { id: decode::identity(owner), ..Process::default() };
        it.row.set(F::Ppid, parent);
        it
    }

    /// After a scan at second 1 that found a connection of `HOLDER`: is one due a second later?
    #[track_caller]
    fn check(is_shared: u32, processes: &[Process], accepted: u64, due: bool) {
        let mut rescan = SocketRescan::default();
        assert!(rescan.is_due(processes, 0, Ns(0)), "the first scan");
        rescan.record_scan(3, Ns(1_000_000_000));
        rescan.learn(&[OpenSocket {
            owner: HOLDER,
            srtt_us8: 8,
            is_shared,
            ..OpenSocket::default()
        }]);
        assert_eq!(rescan.is_due(processes, accepted, Ns(2_000_000_000)), due);
        assert!(rescan.is_due(processes, accepted, Ns(11_000_000_000)), "after ten seconds");
    }

    #[test]
    fn without_changes_no_scan_is_due() {
        check(0, &[process(HOLDER, 1)], 3, false);
    }

    #[test]
    fn an_accepted_or_shared_connection_or_one_without_its_owner_makes_a_scan_due() {
        check(0, &[process(HOLDER, 1)], 4, true);
        check(1, &[process(HOLDER, 1)], 3, true);
        check(0, &[], 3, true);
    }

    #[test]
    fn a_new_child_of_a_holder_makes_a_scan_due() {
        let child = |start| Owner { start_boottime_ns: start, tgid: 9, zero: 0 };
        check(0, &[process(HOLDER, 1), process(child(1_500_000_000), 7)], 3, true);
        check(0, &[process(HOLDER, 1), process(child(500_000_000), 7)], 3, false);
        check(0, &[process(HOLDER, 1), process(child(1_500_000_000), 1)], 3, false);
    }
}
