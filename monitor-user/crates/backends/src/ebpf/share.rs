//! Sockets that several processes hold, each counted once.
//!
//! In: the open sockets of one pass, each with the oldest process that holds it: its owner. Out:
//! the same, with what the owner is to be given. When that one lets go, it keeps what was counted
//! until then, and the next owner is given what comes after. The hooks are told of such sockets,
//! because the last holder may close one between two readings.

use monitor_ebpf::abi::Owner;
use monitor_ebpf::abi::tcp::{Counters, Open, Shared, Totals};
use std::collections::HashMap;

/// The shared sockets, and what they have left behind.
#[derive(Default)]
pub struct Shares {
    /// By cookie: what the hooks are told.
    shared: HashMap<u64, Shared>,
    /// Cookies that were not seen any more at the last reading.
    gone: Vec<u64>,
    /// What processes keep of sockets that they have let go.
    kept: HashMap<Owner, Totals>,
}

impl Shares {
    /// The same sockets, with what the owner of each is to be given now.
    pub fn owned(&mut self, mut all: Vec<Open>) -> Vec<Open> {
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

    /// Takes off what earlier owners keep of a socket.
    fn divide(&mut self, open: &mut Open, before: Option<&Shared>) {
        let is_shared = open.is_shared != 0;
        let mut share = match before {
            Some(share) => *share,
            None if is_shared => Shared { owner: open.owner, ..Shared::default() },
            None => return,
        };
        if share.owner != open.owner {
            let kept = self.kept.entry(share.owner).or_default();
            kept.add(open.family, &share.seen.since(&share.kept));
            share = Shared { owner: open.owner, kept: share.seen, seen: share.seen };
        }
        share.seen = open.counters;
        if is_shared || share.kept != Counters::default() {
            let _ = self.shared.insert(open.cookie, share);
        }
        open.counters = open.counters.since(&share.kept);
    }

    /// What processes keep of sockets that they have let go.
    pub const fn kept(&self) -> &HashMap<Owner, Totals> {
        &self.kept
    }

    /// Forgets what was kept for processes that have ended.
    pub fn forget(&mut self, living: impl Fn(Owner) -> bool) {
        self.kept.retain(|owner, _| living(*owner));
    }

    /// What the hooks must know.
    pub const fn shared(&self) -> &HashMap<u64, Shared> {
        &self.shared
    }

    /// Takes the sockets that the hooks need not know any more. A hook forgets a socket by
    /// itself as it closes, unless we told it in that moment.
    pub fn gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Owner = Owner { start_boottime_ns: 60, tgid: 12, zero: 0 };
    const CHILD: Owner = Owner { start_boottime_ns: 70, tgid: 9, zero: 0 };

    fn open(owner: Owner, is_shared: u32, sent_bytes: u64) -> Open {
        let counters = Counters { sent_bytes, ..Counters::default() };
        Open { owner, cookie: 1, counters, family: 6, is_shared, ..Open::default() }
    }

    /// Owners of sockets, and the bytes that each is given.
    #[track_caller]
    fn check(shares: &mut Shares, open: &[Open], want: &[(Owner, u64)]) {
        let got = shares.owned(open.to_vec());
        let got: Vec<_> = got.iter().map(|it| (it.owner, it.counters.sent_bytes)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn a_socket_seen_twice_in_a_pass_counts_once() {
        check(&mut Shares::default(), &[open(CHILD, 0, 5), open(CHILD, 0, 5)], &[(CHILD, 5)]);
    }

    #[test]
    fn whoever_lets_go_keeps_what_was_counted() {
        let mut shares = Shares::default();
        check(&mut shares, &[open(PARENT, 1, 5)], &[(PARENT, 5)]);
        check(&mut shares, &[open(CHILD, 0, 7)], &[(CHILD, 2)]);
        check(&mut shares, &[open(CHILD, 0, 9)], &[(CHILD, 4)]);
        assert_eq!(shares.kept()[&PARENT].v6.sent_bytes, 5);
        assert_eq!(shares.kept().get(&CHILD), None);
    }

    #[test]
    fn the_hooks_know_a_shared_socket_until_it_is_gone() {
        let mut shares = Shares::default();
        check(&mut shares, &[open(PARENT, 1, 5)], &[(PARENT, 5)]);
        assert_eq!(shares.shared()[&1].seen.sent_bytes, 5);
        check(&mut shares, &[], &[]);
        assert!(shares.shared().is_empty());
        assert_eq!((shares.gone(), shares.gone()), (vec![1], vec![]));
    }
}
