//! Sockets that several processes hold, each counted once.
//!
//! In: the open sockets of one iteration, each with its owner, the oldest process that holds it.
//! Out: the same, with the traffic to attribute to the owner. When the owner closes it, it keeps
//! what was counted until then, and the next owner gets what comes after. The hooks receive such
//! sockets, because the last holder may close one between two readings.

use monitor_ebpf::abi::Owner;
use monitor_ebpf::abi::tcp::{Counters, OpenSocket, SharedSocket, TcpTotals};
use std::collections::HashMap;

/// The shared sockets, and the traffic of their former owners.
#[derive(Default)]
pub struct SharedSockets {
    /// Entries for the hooks, by cookie.
    pub shared: HashMap<u64, SharedSocket>,
    /// Cookies that disappeared at the last reading.
    gone: Vec<u64>,
    /// Traffic that processes keep of sockets they have closed.
    pub kept: HashMap<Owner, TcpTotals>,
}

impl SharedSockets {
    /// The same sockets, with the traffic to attribute to their owners.
    pub fn attribute(&mut self, mut all: Vec<OpenSocket>) -> Vec<OpenSocket> {
        all.sort_by_key(|open| open.cookie);
        all.dedup_by_key(|open| open.cookie);
        let before = std::mem::take(&mut self.shared);
        for open in &mut all {
            self.divide(open, before.get(&open.cookie));
        }
        let gone = before.into_keys().filter(|cookie| !self.shared.contains_key(cookie));
        self.gone = gone.collect();
        all
    }

    /// Subtracts what earlier owners keep of a socket.
    fn divide(&mut self, open: &mut OpenSocket, before: Option<&SharedSocket>) {
        let is_shared = open.is_shared != 0;
        let mut share = match before {
            Some(share) => *share,
            None if is_shared => SharedSocket { owner: open.owner, ..SharedSocket::default() },
            None => return,
        };
        if share.owner != open.owner {
            let kept = self.kept.entry(share.owner).or_default();
            kept.add(open.family, &share.seen.since(&share.kept));
            share = SharedSocket { owner: open.owner, kept: share.seen, seen: share.seen };
        }
        share.seen = open.counters;
        if is_shared || share.kept != Counters::default() {
            let _ = self.shared.insert(open.cookie, share);
        }
        open.counters = open.counters.since(&share.kept);
    }

    /// Removes the traffic of processes that have ended.
    pub fn forget(&mut self, living: impl Fn(Owner) -> bool) {
        self.kept.retain(|owner, _| living(*owner));
    }

    /// Takes the cookies that the hooks no longer need. A hook removes a socket itself when it
    /// closes, unless the entry is written at that moment.
    pub fn gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Owner = Owner { start_boottime_ns: 60, tgid: 12, zero: 0 };
    const CHILD: Owner = Owner { start_boottime_ns: 70, tgid: 9, zero: 0 };

    fn open(owner: Owner, is_shared: u32, sent_bytes: u64) -> OpenSocket {
        let counters = Counters { sent_bytes, ..Counters::default() };
        OpenSocket { owner, cookie: 1, counters, family: 6, is_shared, ..OpenSocket::default() }
    }

    /// Owners of sockets, and the bytes attributed to each.
    #[track_caller]
    fn check(shares: &mut SharedSockets, open: &[OpenSocket], want: &[(Owner, u64)]) {
        let got = shares.attribute(open.to_vec());
        let got: Vec<_> = got.iter().map(|it| (it.owner, it.counters.sent_bytes)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn a_socket_seen_twice_in_an_iteration_counts_once() {
        check(
            &mut SharedSockets::default(),
            &[open(CHILD, 0, 5), open(CHILD, 0, 5)],
            &[(CHILD, 5)],
        );
    }

    #[test]
    fn a_former_owner_keeps_what_was_counted() {
        let mut shares = SharedSockets::default();
        check(&mut shares, &[open(PARENT, 1, 5)], &[(PARENT, 5)]);
        check(&mut shares, &[open(CHILD, 0, 7)], &[(CHILD, 2)]);
        check(&mut shares, &[open(CHILD, 0, 9)], &[(CHILD, 4)]);
        assert_eq!(shares.kept[&PARENT].v6.sent_bytes, 5);
        assert_eq!(shares.kept.get(&CHILD), None);
    }

    #[test]
    fn the_hooks_have_a_shared_socket_until_it_is_closed() {
        let mut shares = SharedSockets::default();
        check(&mut shares, &[open(PARENT, 1, 5)], &[(PARENT, 5)]);
        assert_eq!(shares.shared[&1].seen.sent_bytes, 5);
        check(&mut shares, &[], &[]);
        assert!(shares.shared.is_empty());
        assert_eq!((shares.gone(), shares.gone()), (vec![1], vec![]));
    }
}
