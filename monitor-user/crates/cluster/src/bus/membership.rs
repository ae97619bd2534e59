//! The members, as the entries of the order make them: the same at the same position on all nodes.
//!
//! In: the members at one position, and entries. Out: what each entry changes. An entry up to the
//! first position changes nothing.

use super::MemberRecord;
use super::entry::{EntryBody, Incarnation, LedgerId, Seq, SequencedEntry};
use std::collections::BTreeMap;

/// The members at a position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    as_of: Seq,
    members: BTreeMap<String, MemberRecord>,
}

/// What an entry changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// Nothing.
    Unchanged,
    /// A node is a member.
    Joined(MemberRecord),
    /// A node could not become one: the member of its name has another ledger.
    NameInUse(MemberRecord),
    /// A node leaves soon, and is still a member.
    Draining(MemberRecord),
    /// A node has left.
    Left(MemberRecord),
    /// A node was removed.
    Removed(MemberRecord),
}

impl Membership {
    /// The members at a position.
    pub fn new(as_of: Seq, members: Vec<MemberRecord>) -> Self {
        let members = members.into_iter().map(|member| (member.node.clone(), member)).collect();
        Self { as_of, members }
    }

    /// The position.
    pub const fn as_of(&self) -> Seq {
        self.as_of
    }

    /// A member.
    pub fn get(&self, node: &str) -> Option<&MemberRecord> {
        self.members.get(node)
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// All members, by name.
    pub fn iter(&self) -> impl Iterator<Item = &MemberRecord> {
        self.members.values()
    }

    /// Applies an entry; those up to the position are ignored.
    pub fn apply(&mut self, at: &SequencedEntry) -> MembershipChange {
        if at.seq <= self.as_of {
            return MembershipChange::Unchanged;
        }
        self.as_of = at.seq;
        match &at.entry.body {
            EntryBody::Command(_) => MembershipChange::Unchanged,
            EntryBody::Joined { incarnation, ledger, since, formats, aggregators } => {
                let (node, incarnation) = (at.entry.origin.clone(), *incarnation);
                let is_repetition = since.is_some();
                let is_ended = self.get(&node).is_none_or(|it| it.incarnation != incarnation);
                if is_repetition && is_ended {
                    // It was sent before the node knew that it had been removed.
                    return MembershipChange::Unchanged;
                }
                let since = since.unwrap_or(at.seq);
                self.join(MemberRecord {
                    node,
                    ledger: *ledger,
                    incarnation,
                    since,
                    is_draining: false,
                    formats: *formats,
                    aggregators: aggregators.clone(),
                })
            }
            EntryBody::Draining { incarnation, ledger, .. } => {
                self.drain(&at.entry.origin, (*incarnation, *ledger))
            }
            EntryBody::Left { incarnation } => {
                let gone = self.remove(&at.entry.origin, *incarnation);
                gone.map_or(MembershipChange::Unchanged, MembershipChange::Left)
            }
            EntryBody::Removed { node, incarnation } => {
                let gone = self.remove(node, *incarnation);
                gone.map_or(MembershipChange::Unchanged, MembershipChange::Removed)
            }
        }
    }

    fn join(&mut self, new: MemberRecord) -> MembershipChange {
        match self.members.get(&new.node) {
            Some(old) if old.ledger != new.ledger => return MembershipChange::NameInUse(new),
            // A repetition, or an entry that was overtaken by that of a later stay.
            Some(old) if new.incarnation <= old.incarnation => return MembershipChange::Unchanged,
            _ => {}
        }
        self.members.insert(new.node.clone(), new.clone());
        MembershipChange::Joined(new)
    }

    fn drain(&mut self, node: &str, stay: (Incarnation, LedgerId)) -> MembershipChange {
        match self.members.get_mut(node) {
            Some(member) if (member.incarnation, member.ledger) == stay && !member.is_draining => {
                member.is_draining = true;
                MembershipChange::Draining(member.clone())
            }
            _ => MembershipChange::Unchanged,
        }
    }

    /// Ends a stay; a later one of the same node remains.
    fn remove(&mut self, node: &str, incarnation: Incarnation) -> Option<MemberRecord> {
        let is_meant = self.members.get(node).is_some_and(|it| it.incarnation == incarnation);
        is_meant.then(|| self.members.remove(node)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::{BusEntry, EntryId, StreamTime};
    use super::*;
    use monitor_protocol::cluster::MessageFormats;

    /// Those of a later version.
    const OTHERS: MessageFormats = MessageFormats { oldest: 1, newest: 2 };
    use proptest::prelude::*;

    fn at(seq: u64, origin: &str, body: EntryBody) -> SequencedEntry {
        let entry = BusEntry { origin: origin.into(), id: EntryId::default(), body };
        SequencedEntry { seq: Seq(seq), stamp: StreamTime(0), entry }
    }

    fn joined(incarnation: u64, ledger: u64) -> EntryBody {
        let (incarnation, ledger) = (Incarnation(incarnation), LedgerId(ledger));
        EntryBody::Joined {
            incarnation,
            ledger,
            since: None,
            formats: OTHERS,
            aggregators: String::new(),
        }
    }

    #[test]
    fn a_name_belongs_to_the_first_ledger_until_that_node_is_gone() {
        let mut members = Membership::default();
        assert!(matches!(members.apply(&at(1, "a", joined(1, 7))), MembershipChange::Joined(_)));
        assert!(matches!(members.apply(&at(2, "a", joined(2, 8))), MembershipChange::NameInUse(_)));
        assert!(matches!(members.apply(&at(3, "a", joined(3, 7))), MembershipChange::Joined(_)));
        let removed = |it| EntryBody::Removed { node: "a".into(), incarnation: Incarnation(it) };
        // It is too late for the removal of an earlier stay.
        assert_eq!(members.apply(&at(4, "s", removed(1))), MembershipChange::Unchanged);
        assert!(matches!(members.apply(&at(5, "s", removed(3))), MembershipChange::Removed(_)));
        assert!(matches!(members.apply(&at(6, "a", joined(4, 8))), MembershipChange::Joined(_)));
        let member = members.get("a").unwrap();
        assert_eq!((member.since, member.formats), (Seq(6), OTHERS));
    }

    #[test]
    fn a_repetition_does_not_bring_back_a_node_that_was_removed() {
        let mut members = Membership::default();
        drop(members.apply(&at(1, "a", joined(1, 7))));
        let removed = EntryBody::Removed { node: "a".into(), incarnation: Incarnation(1) };
        drop(members.apply(&at(2, "s", removed)));
        let (incarnation, ledger) = (Incarnation(1), LedgerId(7));
        let again = EntryBody::Joined {
            incarnation,
            ledger,
            since: Some(Seq(1)),
            formats: OTHERS,
            aggregators: String::new(),
        };
        assert_eq!(members.apply(&at(3, "a", again)), MembershipChange::Unchanged);
        assert_eq!(members.get("a"), None);
    }

    fn node() -> impl Strategy<Value = &'static str> {
        prop::sample::select(vec!["a", "b", "c"])
    }

    fn draining(incarnation: u64, ledger: u64) -> EntryBody {
        let (incarnation, ledger) = (Incarnation(incarnation), LedgerId(ledger));
        EntryBody::Draining {
            incarnation,
            ledger,
            since: Seq(1),
            formats: OTHERS,
            aggregators: String::new(),
        }
    }

    #[test]
    fn a_node_that_drains_is_a_member_until_it_leaves() {
        let mut members = Membership::default();
        assert_eq!(members.apply(&at(1, "a", draining(1, 7))), MembershipChange::Unchanged);
        drop(members.apply(&at(2, "a", joined(1, 7))));
        let change = members.apply(&at(3, "a", draining(1, 7)));
        assert!(matches!(change, MembershipChange::Draining(ref it) if it.is_draining));
        assert_eq!(members.apply(&at(4, "a", draining(1, 7))), MembershipChange::Unchanged);
        assert!(members.get("a").unwrap().is_draining);
        let left = EntryBody::Left { incarnation: Incarnation(1) };
        assert!(matches!(members.apply(&at(5, "a", left)), MembershipChange::Left(_)));
        drop(members.apply(&at(6, "a", joined(2, 7))));
        assert!(!members.get("a").unwrap().is_draining);
    }

    fn body() -> impl Strategy<Value = EntryBody> {
        prop_oneof![
            (0..4_u64, 0..2_u64).prop_map(|(incarnation, ledger)| draining(incarnation, ledger)),
            (0..4_u64, 0..2_u64).prop_map(|(incarnation, ledger)| joined(incarnation, ledger)),
            (0..4_u64).prop_map(|it| EntryBody::Left { incarnation: Incarnation(it) }),
            (node(), 0..4_u64).prop_map(|(node, incarnation)| EntryBody::Removed {
                node: node.into(),
                incarnation: Incarnation(incarnation)
            }),
        ]
    }

    proptest! {
        /// Members at any position, and the entries from any earlier one on, are the same members.
        #[test]
        fn a_node_that_begins_later_has_the_same_members(
            bodies in prop::collection::vec((node(), body()), 0..40),
            cut in 0..40_usize,
            back in 0..10_usize,
        ) {
            let entries = (1..).zip(bodies).map(|(seq, (node, body))| at(seq, node, body));
            let entries: Vec<_> = entries.collect();
            let cut = cut.min(entries.len());
            let mut all = Membership::default();
            entries[..cut].iter().for_each(|it| drop(all.apply(it)));
            let mut late = Membership::new(all.as_of(), all.iter().cloned().collect());
            entries[cut.saturating_sub(back)..].iter().for_each(|it| drop(late.apply(it)));
            entries[cut..].iter().for_each(|it| drop(all.apply(it)));
            prop_assert_eq!(all, late);
        }
    }
}
