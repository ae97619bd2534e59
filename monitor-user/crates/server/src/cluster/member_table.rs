//! The members, and the nodes that were members: what is shown of the cluster.
//!
//! In: changes among the members, and the members where changes did not come one by one. Out: each
//! node with its state, and since when. A time is that of this node, when the change came.

use monitor_cluster::bus::membership::{Membership, MembershipChange};
use monitor_protocol::cluster::{Member, MemberState, MessageFormats};
use std::collections::BTreeMap;

/// Number of nodes that are no members any more and still listed.
const MAX_FORMER: usize = 4096;

/// The members and former members, by name.
#[derive(Default)]
pub struct MemberTable {
    all: BTreeMap<String, ListedNode>,
    /// Whether the members were known once: those of the beginning have no time.
    is_known: bool,
}

/// A node that is a member, or was one.
struct ListedNode {
    state: MemberState,
    since: Option<u64>,
    formats: MessageFormats,
}

impl MemberTable {
    /// Notes a change.
    pub fn change(&mut self, change: &MembershipChange, unix_ns: u64) {
        let (member, state) = match change {
            MembershipChange::Unchanged | MembershipChange::NameInUse(_) => return,
            MembershipChange::Joined(member) => (member, MemberState::Up),
            MembershipChange::Draining(member) => (member, MemberState::Draining),
            MembershipChange::Left(member) => (member, MemberState::Left),
            MembershipChange::Removed(member) => (member, MemberState::Dead),
        };
        let node = ListedNode { state, since: Some(unix_ns), formats: member.formats };
        self.all.insert(member.node.clone(), node);
        self.forget_oldest();
    }

    /// Adds what the changes do not say: the members at the beginning, and after a gap.
    pub fn update(&mut self, members: &Membership, unix_ns: u64) {
        let since = self.is_known.then_some(unix_ns);
        for member in members.iter() {
            let state = if member.is_draining { MemberState::Draining } else { MemberState::Up };
            let formats = member.formats;
            match self.all.get_mut(&member.node).filter(|it| it.state == state) {
                Some(noted) => noted.formats = formats,
                None => {
                    let node = ListedNode { state, since, formats };
                    self.all.insert(member.node.clone(), node);
                }
            }
        }
        for (node, it) in &mut self.all {
            if is_member(it.state) && members.get(node).is_none() {
                (it.state, it.since) = (MemberState::Dead, Some(unix_ns));
            }
        }
        self.is_known |= members.iter().next().is_some();
        self.forget_oldest();
    }

    /// Since when a node is a member.
    pub fn list(&self) -> Vec<Member> {
        let member = |(node, it): (&String, &ListedNode)| Member {
            node: node.clone(),
            state: it.state,
            since_unix_ns: it.since,
            formats: it.formats,
        };
        self.all.iter().map(member).collect()
    }

    fn forget_oldest(&mut self) {
        let former = |it: &(&String, &ListedNode)| !is_member(it.1.state);
        while self.all.iter().filter(former).count() > MAX_FORMER {
            let oldest = self.all.iter().filter(former).min_by_key(|it| it.1.since);
            let Some(node) = oldest.map(|it| it.0.clone()) else { return };
            self.all.remove(&node);
        }
    }
}

const fn is_member(state: MemberState) -> bool {
    matches!(state, MemberState::Up | MemberState::Draining)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_cluster::bus::MemberRecord;
    use monitor_cluster::bus::entry::{FORMATS, Incarnation, LedgerId, Seq};

    fn record(node: &str) -> MemberRecord {
        MemberRecord {
            node: node.to_owned(),
            ledger: LedgerId(1),
            incarnation: Incarnation(1),
            since: Seq(1),
            is_draining: false,
            formats: FORMATS,
            aggregators: String::new(),
        }
    }

    fn members(nodes: &[&str]) -> Membership {
        Membership::new(Seq(1), nodes.iter().map(|node| record(node)).collect())
    }

    fn listed(table: &MemberTable) -> Vec<(String, MemberState, Option<u64>)> {
        table.list().into_iter().map(|it| (it.node, it.state, it.since_unix_ns)).collect()
    }

    #[test]
    fn a_node_that_is_no_member_any_more_is_listed_with_its_end() {
        let mut table = MemberTable::default();
        table.update(&members(&["a", "b", "c"]), 1);
        table.change(&MembershipChange::Removed(record("b")), 5);
        table.change(&MembershipChange::Left(record("c")), 6);
        table.change(&MembershipChange::Joined(record("d")), 7);
        table.update(&members(&["a", "d"]), 9);
        let (a, d) = (("a".to_owned(), MemberState::Up, None), Some(7));
        let rest = [
            ("b".to_owned(), MemberState::Dead, Some(5)),
            ("c".to_owned(), MemberState::Left, Some(6)),
            ("d".to_owned(), MemberState::Up, d),
        ];
        assert_eq!(listed(&table)[0], a);
        assert_eq!(listed(&table)[1..], rest);
    }

    #[test]
    fn what_happened_in_a_gap_is_noted_when_it_is_seen() {
        let mut table = MemberTable::default();
        table.update(&members(&["a", "b"]), 1);
        table.update(&members(&["a", "c"]), 8);
        let want = [
            ("a".to_owned(), MemberState::Up, None),
            ("b".to_owned(), MemberState::Dead, Some(8)),
            ("c".to_owned(), MemberState::Up, Some(8)),
        ];
        assert_eq!(listed(&table), want);
    }

    #[test]
    fn a_node_that_comes_again_with_a_later_version_has_its_formats() {
        let mut table = MemberTable::default();
        table.update(&members(&["a"]), 1);
        let later = MessageFormats { oldest: 1, newest: 2 };
        let again = MemberRecord { formats: later, ..record("a") };
        table.update(&Membership::new(Seq(2), vec![again]), 5);
        assert_eq!((table.list()[0].formats, table.list()[0].since_unix_ns), (later, None));
    }
}
