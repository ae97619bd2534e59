//! Which members are dead: what the holder of a lease removes from the cluster.
//!
//! In: heartbeats of members, connections that the bus has lost, the lease, time. Out: the members
//! to remove. Service nodes listen all the time, so that another one can go on at once where the
//! holder of the lease is dead itself. Silence counts only while the own heartbeats come back: a
//! node that receives nothing, not even from itself, removes none.
//!
//! A member whose connection was lost is dead unless it gives a sign of life over another one soon.
//! For that the lease only says which node is first: a second removal changes nothing.

use super::executor::TICK;
use crate::bus::entry::{EntryBody, Incarnation};
use crate::bus::membership::Membership;
use crate::bus::{Bus, BusEvent, LeaseGrant, Topic};
use monitor_model::Ns;
use std::collections::BTreeMap;

/// Time between two heartbeats of a member.
pub const HEARTBEAT: Ns = Ns(3 * TICK.0);
/// The same for a node that removes members: by its own heartbeats it knows that it receives some.
pub const HEARTBEAT_OF_REMOVER: Ns = Ns(2 * TICK.0);
/// A member is dead if it gave no sign of life for this time: more than `HEARTBEAT` and
/// `DEAF`, so that a node which receives nothing knows that before others seem dead.
pub const SILENCE: Ns = Ns(5_200_000_000);
/// The lease of the node that removes members.
const LEASE: &str = "removals";
/// How long it lasts if it is not renewed.
const LEASE_TIME: Ns = Ns(2_500_000_000);
/// After this time without the own heartbeat, the silence of others does not count.
const DEAF: Ns = Ns(2_400_000_000);
/// How long a member that has lost its connection has for another one, if this node has the lease.
const RECONNECTION: Ns = Ns(60_000_000);
/// The same where another node has the lease, which may be the one that is dead.
const RECONNECTION_OF_OTHERS: Ns = Ns(120_000_000);
/// The lease is renewed when less of it is left than this.
const RENEWAL: Ns = Ns(900_000_000);
/// After this time without an answer, a lease or a removal is requested again.
const REPEAT: Ns = Ns(5_000_000_000);

/// When each member gave a sign of life.
#[derive(Default)]
pub struct Liveness {
    grant: Option<LeaseGrant>,
    /// When the lease was requested, if there was no answer yet.
    requested: Option<Ns>,
    /// When the own heartbeat came last, and since when it came without a break.
    listens: Option<(Ns, Ns)>,
    contacts: BTreeMap<String, Contact>,
    /// When a member may have to be removed before the next tick, if there is one.
    next_removal: Option<Ns>,
}

struct Contact {
    incarnation: Incarnation,
    last: Ns,
    /// When the bus lost its connection, if it gave no sign of life since.
    disconnected: Option<Ns>,
    /// When its removal was sent.
    removed: Option<Ns>,
}

impl Liveness {
    /// Begins to listen.
    pub fn subscribe(bus: &mut dyn Bus) -> Self {
        bus.subscribe(Topic::Heartbeat);
        Self::default()
    }

    /// Handles an event, or returns one that is not about which members are alive.
    pub fn event(&mut self, now: Ns, own: &str, event: BusEvent) -> Option<BusEvent> {
        match event {
            BusEvent::Published { from, topic: Topic::Heartbeat, bytes } => {
                self.heartbeat(now, own, (&from, &bytes));
            }
            BusEvent::Disconnected { node } => {
                if let Some(contact) = self.contacts.get_mut(&node) {
                    contact.disconnected = Some(now);
                    let removal = Ns(now.0 + self.reconnection(now).0);
                    self.next_removal =
                        self.next_removal.map_or(Some(removal), |it| Some(it.min(removal)));
                }
            }
            BusEvent::Lease { name, grant } if name == LEASE => {
                (self.grant, self.requested) = (grant, None);
            }
            other => return Some(other),
        }
        None
    }

    /// When `removals` is due before the next tick, because a member has lost its connection, or is
    /// silent.
    pub const fn due(&self) -> Option<Ns> {
        self.next_removal
    }

    fn has_lease(&self, now: Ns) -> bool {
        self.grant.is_some_and(|grant| now < grant.until)
    }

    /// How long a member that has lost its connection has for another one.
    fn reconnection(&self, now: Ns) -> Ns {
        if self.has_lease(now) { RECONNECTION } else { RECONNECTION_OF_OTHERS }
    }

    /// Requests the lease when it is due; due every `executor::TICK`.
    pub fn request_lease(&mut self, now: Ns, bus: &mut dyn Bus) {
        if self.grant.is_some_and(|grant| grant.until.since(now) >= RENEWAL) {
            return;
        }
        if self.requested.is_none_or(|asked| now.since(asked) >= REPEAT) {
            self.requested = Some(now);
            bus.request_lease(now, LEASE, LEASE_TIME);
        }
    }

    /// Handles a heartbeat.
    fn heartbeat(&mut self, now: Ns, own: &str, (from, bytes): (&str, &[u8])) {
        if from == own {
            let since = self.listens.filter(|(last, _)| now.since(*last) <= DEAF);
            self.listens = Some((now, since.map_or(now, |(_, since)| since)));
        }
        let incarnation = bytes.try_into().map(|bytes| Incarnation(u64::from_le_bytes(bytes)));
        if let (Some(contact), Ok(incarnation)) = (self.contacts.get_mut(from), incarnation)
            && contact.incarnation == incarnation
        {
            (contact.last, contact.disconnected) = (now, None);
        }
    }

    /// The removals of dead members, which are to be sent.
    pub fn removals(&mut self, now: Ns, own: &str, members: &Membership) -> Vec<EntryBody> {
        self.contacts.retain(|node, _| members.get(node).is_some());
        for member in members.iter() {
            let new = || Contact {
                incarnation: member.incarnation,
                last: now,
                disconnected: None,
                removed: None,
            };
            let contact = self.contacts.entry(member.node.clone()).or_insert_with(new);
            if contact.incarnation != member.incarnation {
                *contact = new();
            }
        }
        self.next_removal = None;
        let Some((_, since)) = self.listens.filter(|(last, _)| now.since(*last) <= DEAF) else {
            return Vec::new();
        };
        let (has_lease, reconnection) = (self.has_lease(now), self.reconnection(now));
        let mut next_removal = None;
        let dead = self.contacts.iter_mut().filter(|(node, contact)| {
            let is_sent = contact.removed.is_some_and(|sent| now.since(sent) < REPEAT);
            if node.as_str() == own || is_sent {
                return false;
            }
            let of_silence = has_lease.then(|| Ns(contact.last.max(since).0 + SILENCE.0));
            let of_loss = contact.disconnected.map(|lost| Ns(lost.0 + reconnection.0));
            let Some(removal) = of_silence.into_iter().chain(of_loss).min() else { return false };
            if removal > now && removal.since(now) <= TICK {
                next_removal = next_removal.map_or(Some(removal), |it: Ns| Some(it.min(removal)));
            }
            removal <= now
        });
        let removals = dead.map(|(node, contact)| {
            contact.removed = Some(now);
            EntryBody::Removed { node: node.clone(), incarnation: contact.incarnation }
        });
        let removals = removals.collect();
        self.next_removal = next_removal;
        removals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::MemberRecord;
    use crate::bus::entry::{FORMATS, LedgerId, Seq};

    const SECOND: u64 = 1_000_000_000;

    fn members(incarnation: u64) -> Membership {
        let member = |node: &str| MemberRecord {
            node: node.into(),
            ledger: LedgerId(1),
            incarnation: Incarnation(incarnation),
            since: Seq(1),
            is_draining: false,
            formats: FORMATS,
            aggregators: String::new(),
        };
        Membership::new(Seq(9), vec![member("own"), member("a"), member("b")])
    }

    /// Lets half seconds pass with heartbeats of these nodes; returns the nodes to remove.
    fn pass(
        liveness: &mut Liveness,
        (from, until): (u64, u64),
        alive: &[&str],
        lease: Option<Ns>,
    ) -> Vec<String> {
        let mut dead = Vec::new();
        for now in (from..until).step_by(500_000_000) {
            liveness.grant = lease.map(|until| LeaseGrant { token: 1, until });
            for node in alive {
                liveness.heartbeat(Ns(now), "own", (node, &1_u64.to_le_bytes()));
            }
            for body in liveness.removals(Ns(now), "own", &members(1)) {
                let EntryBody::Removed { node, .. } = body else { panic!("{body:?}") };
                dead.push(node);
            }
        }
        dead
    }

    const LEASED: Option<Ns> = Some(Ns(u64::MAX));

    #[test]
    fn a_member_that_is_silent_is_removed_once_by_the_holder_of_the_lease() {
        let mut liveness = Liveness::default();
        let all = ["own", "a", "b"];
        assert_eq!(pass(&mut liveness, (0, 5 * SECOND), &all, LEASED), [""; 0]);
        assert_eq!(pass(&mut liveness, (5 * SECOND, 9 * SECOND), &["own", "a"], None), [""; 0]);
        assert_eq!(pass(&mut liveness, (9 * SECOND, 13 * SECOND), &["own", "a"], LEASED), ["b"]);
    }

    #[test]
    fn a_silence_that_ends_between_two_ticks_is_due_then() {
        let mut liveness = Liveness::default();
        pass(&mut liveness, (0, 2 * SECOND), &["own", "a", "b"], LEASED);
        pass(&mut liveness, (2 * SECOND, 6 * SECOND), &["own", "a"], LEASED);
        assert_eq!(liveness.due(), None);
        pass(&mut liveness, (6 * SECOND, 6 * SECOND + 1), &["own", "a"], LEASED);
        assert_eq!(liveness.due(), Some(Ns(3 * SECOND / 2 + SILENCE.0)));
    }

    #[test]
    fn a_node_that_receives_nothing_removes_none() {
        let mut liveness = Liveness::default();
        pass(&mut liveness, (0, 5 * SECOND), &["own", "a", "b"], LEASED);
        assert_eq!(pass(&mut liveness, (5 * SECOND, 60 * SECOND), &[], LEASED), [""; 0]);
        // The others have the whole time again.
        assert_eq!(pass(&mut liveness, (60 * SECOND, 64 * SECOND), &["own"], LEASED), [""; 0]);
        assert_eq!(pass(&mut liveness, (64 * SECOND, 66 * SECOND), &["own"], LEASED), ["a", "b"]);
    }

    #[test]
    fn a_lost_connection_is_a_death_unless_the_node_is_alive() {
        let mut liveness = Liveness::default();
        let all = ["own", "a", "b"];
        pass(&mut liveness, (0, 2 * SECOND), &all, LEASED);
        liveness.contacts.values_mut().for_each(|contact| contact.disconnected = Some(Ns(SECOND)));
        assert_eq!(pass(&mut liveness, (2 * SECOND, 3 * SECOND), &["own", "a"], LEASED), ["b"]);
    }

    #[test]
    fn a_lost_connection_is_a_death_for_the_holder_first_and_then_for_the_others() {
        for (lease, reconnection) in [(LEASED, RECONNECTION), (None, RECONNECTION_OF_OTHERS)] {
            let mut liveness = Liveness::default();
            pass(&mut liveness, (0, 2 * SECOND), &["own", "a", "b"], lease);
            let lost = Ns(2 * SECOND);
            for node in ["a", "b"] {
                let event = BusEvent::Disconnected { node: node.into() };
                assert_eq!(liveness.event(lost, "own", event), None);
            }
            // One of them is connected again.
            liveness.heartbeat(Ns(lost.0 + 1), "own", ("a", &1_u64.to_le_bytes()));
            assert_eq!(liveness.due(), Some(Ns(lost.0 + reconnection.0)));
            let early = liveness.removals(Ns(lost.0 + reconnection.0 - 1), "own", &members(1));
            assert_eq!((early, liveness.due()), (vec![], Some(Ns(lost.0 + reconnection.0))));
            let (node, incarnation) = ("b".to_owned(), Incarnation(1));
            let removals = liveness.removals(Ns(lost.0 + reconnection.0), "own", &members(1));
            assert_eq!(removals, [EntryBody::Removed { node, incarnation }]);
            assert_eq!(liveness.due(), None, "once");
        }
    }
}
