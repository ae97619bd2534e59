//! The bus in memory: joins ports of one process, and a counter is the order.
//!
//! No thread, no server: what a port sends is in the queues of the others when the call returns.
//! It keeps the last entries for ports that come later or read slowly, and the stamp of an entry
//! is the time of the call.

use super::entry::{BusEntry, CommandReply, EntryId, Seq, SequencedEntry, StreamTime};
use super::membership::Membership;
use super::{BaseCause, Bus, BusEvent, DUPLICATE_WINDOW, LeaseGrant, OwnRecord, Topic};
use monitor_model::Ns;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Number of entries that are kept.
const KEPT: usize = 65_536;
/// Number of events beside the order that wait for one port; the oldest are dropped and counted.
const MAILBOX: usize = 65_536;

/// The bus.
#[derive(Clone, Default)]
pub struct LocalBus {
    shared: Arc<Mutex<Shared>>,
}

/// A connection to the bus; it ends when it is dropped.
pub struct LocalPort {
    bus: LocalBus,
    name: String,
    number: u64,
}

#[derive(Default)]
struct Shared {
    log: VecDeque<SequencedEntry>,
    last: Seq,
    stamp: StreamTime,
    members: Membership,
    /// Positions of entries within the window of duplicates.
    positions: HashMap<(String, EntryId), Seq>,
    /// The same, oldest first.
    expiring: VecDeque<(StreamTime, (String, EntryId))>,
    ports: BTreeMap<u64, Port>,
    next_port: u64,
    leases: BTreeMap<String, Lease>,
}

struct Port {
    name: String,
    /// The next position to deliver.
    next: Seq,
    mailbox: VecDeque<BusEvent>,
    topics: BTreeSet<Topic>,
    waker: Option<Waker>,
    n_lost: u64,
}

struct Lease {
    holder: u64,
    grant: LeaseGrant,
}

impl LocalBus {
    /// Adds a port that gets all entries from now on, or from an earlier position.
    pub fn connect(&self, name: &str, from: Option<Seq>) -> LocalPort {
        let number = self.with(|shared| shared.add_port(name, from));
        LocalPort { bus: self.clone(), name: name.to_owned(), number }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Shared) -> T) -> T {
        // Each call leaves the state consistent, even after a panic in another thread.
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    fn add_port(&mut self, name: &str, from: Option<Seq>) -> u64 {
        self.next_port += 1;
        let head = Seq(self.last.0 + 1);
        let next = from.map_or(head, |from| from.max(self.first()).min(head));
        let base = self.base(BaseCause::Start);
        let port = Port {
            name: name.to_owned(),
            next,
            mailbox: VecDeque::from([base]),
            topics: BTreeSet::new(),
            waker: None,
            n_lost: 0,
        };
        self.ports.insert(self.next_port, port);
        self.next_port
    }

    fn base(&self, cause: BaseCause) -> BusEvent {
        let members = self.members.iter().cloned().collect();
        BusEvent::Base { as_of: self.last, members, cause }
    }

    /// The oldest position that is kept, or the next one.
    fn first(&self) -> Seq {
        self.log.front().map_or(Seq(self.last.0 + 1), |entry| entry.seq)
    }

    /// Gives an entry its position; that of an earlier one with the same id, if there is one.
    fn append(&mut self, now: Ns, entry: BusEntry) -> Seq {
        self.stamp = self.stamp.max(StreamTime(now.0));
        self.forget_positions();
        let key = (entry.origin.clone(), entry.id);
        if let Some(seq) = self.positions.get(&key) {
            return *seq;
        }
        self.last.0 += 1;
        self.positions.insert(key.clone(), self.last);
        self.expiring.push_back((self.stamp, key));
        let entry = SequencedEntry { seq: self.last, stamp: self.stamp, entry };
        self.members.apply(&entry);
        self.log.push_back(entry);
        if self.log.len() > KEPT {
            self.log.pop_front();
        }
        self.ports.values_mut().for_each(Port::wake);
        self.last
    }

    fn forget_positions(&mut self) {
        let oldest = self.stamp.0.saturating_sub(DUPLICATE_WINDOW.0);
        while let Some((_, key)) = self.expiring.pop_front_if(|(stamp, _)| stamp.0 < oldest) {
            self.positions.remove(&key);
        }
    }

    fn next_event(&mut self, number: u64) -> Option<BusEvent> {
        let first = self.first();
        let port = self.ports.get_mut(&number)?;
        if let Some(event) = port.mailbox.pop_front() {
            return Some(event);
        }
        if port.next < first {
            port.next = first;
            return Some(self.base(BaseCause::Gap));
        }
        let index = usize::try_from(port.next.0 - first.0).ok()?;
        let entry = self.log.get(index)?.clone();
        port.next.0 += 1;
        Some(BusEvent::Entry(entry))
    }

    fn take_lease(
        &mut self,
        port: u64,
        name: &str,
        (now, duration): (Ns, Ns),
    ) -> Option<LeaseGrant> {
        let until = Ns(now.0.saturating_add(duration.0));
        let current = self.leases.get(name);
        let token = match current.filter(|it| self.ports.contains_key(&it.holder)) {
            Some(lease) if lease.holder == port && now < lease.grant.until => lease.grant.token,
            Some(lease) if now < lease.grant.until => return None,
            _ => current.map_or(1, |it| it.grant.token + 1),
        };
        let grant = LeaseGrant { token, until };
        self.leases.insert(name.to_owned(), Lease { holder: port, grant });
        Some(grant)
    }
}

impl Port {
    fn push(&mut self, event: BusEvent) {
        if self.mailbox.len() == MAILBOX {
            self.mailbox.pop_front();
            self.n_lost += 1;
        }
        self.mailbox.push_back(event);
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl LocalPort {
    fn push(&self, shared: &mut Shared, event: BusEvent) {
        if let Some(port) = shared.ports.get_mut(&self.number) {
            port.push(event);
        }
    }

    fn with_own(&self, act: impl FnOnce(&mut Port) -> bool) {
        self.bus.with(|shared| shared.ports.get_mut(&self.number).map(act));
    }
}

impl Bus for LocalPort {
    fn multicast(&mut self, now: Ns, entry: BusEntry, _give_up: Ns) {
        self.bus.with(|shared| {
            let id = entry.id;
            let seq = shared.append(now, BusEntry { origin: self.name.clone(), ..entry });
            self.push(shared, BusEvent::Sequenced { id, seq });
        });
    }

    fn reply(&mut self, to: &str, reply: CommandReply) {
        self.bus.with(|shared| {
            for port in shared.ports.values_mut().filter(|port| port.name == to) {
                port.push(BusEvent::Reply { from: self.name.clone(), reply: reply.clone() });
            }
        });
    }

    fn send(&mut self, to: &str, bytes: Vec<u8>) {
        self.bus.with(|shared| {
            for port in shared.ports.values_mut().filter(|port| port.name == to) {
                port.push(BusEvent::Message { from: self.name.clone(), bytes: bytes.clone() });
            }
        });
    }

    fn publish(&mut self, topic: Topic, bytes: Vec<u8>) {
        self.bus.with(|shared| {
            for port in shared.ports.values_mut().filter(|port| port.topics.contains(&topic)) {
                let (from, bytes) = (self.name.clone(), bytes.clone());
                port.push(BusEvent::Published { from, topic, bytes });
            }
        });
    }

    fn subscribe(&mut self, topic: Topic) {
        self.with_own(|port| port.topics.insert(topic));
    }

    fn unsubscribe(&mut self, topic: Topic) {
        self.with_own(|port| port.topics.remove(&topic));
    }

    fn read_own_record(&mut self, now: Ns) {
        self.bus.with(|shared| {
            let record = OwnRecord {
                asked: now,
                stamp: StreamTime(now.0),
                stamped: now,
                member: shared.members.get(&self.name).cloned(),
                kept: Some((shared.first(), shared.last)),
            };
            self.push(shared, BusEvent::OwnRecord(record));
        });
    }

    fn request_lease(&mut self, now: Ns, name: &str, duration: Ns) {
        self.bus.with(|shared| {
            let grant = shared.take_lease(self.number, name, (now, duration));
            self.push(shared, BusEvent::Lease { name: name.to_owned(), grant });
        });
    }

    fn release_lease(&mut self, name: &str) {
        self.bus.with(|shared| {
            if let Some(lease) = shared.leases.get_mut(name).filter(|it| it.holder == self.number) {
                lease.grant.until = Ns(0);
            }
        });
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<BusEvent> {
        self.bus.with(|shared| match shared.next_event(self.number) {
            Some(event) => Poll::Ready(event),
            None => {
                if let Some(port) = shared.ports.get_mut(&self.number) {
                    port.waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
        })
    }

    fn n_lost(&self) -> u64 {
        self.bus.with(|shared| shared.ports.get(&self.number).map_or(0, |port| port.n_lost))
    }
}

impl Drop for LocalPort {
    fn drop(&mut self) {
        self.bus.with(|shared| {
            shared.ports.remove(&self.number);
            if shared.ports.values().any(|port| port.name == self.name) {
                return;
            }
            let ports = shared.ports.values_mut();
            for port in ports.filter(|port| port.topics.contains(&Topic::Heartbeat)) {
                port.push(BusEvent::Disconnected { node: self.name.clone() });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::{EntryBody, Incarnation};
    use super::super::try_event;
    use super::*;

    fn leave(number: u64) -> BusEntry {
        let id = EntryId { start: 1, number };
        BusEntry {
            origin: String::new(),
            id,
            body: EntryBody::Left { incarnation: Incarnation(0) },
        }
    }

    #[test]
    fn a_port_that_reads_too_slowly_gets_the_members_again() {
        let bus = LocalBus::default();
        let (mut writer, mut reader) = (bus.connect("w", None), bus.connect("r", None));
        assert!(matches!(try_event(&mut reader), Some(BusEvent::Base { as_of: Seq(0), .. })));
        let n_sent = KEPT as u64 + 7;
        (0..n_sent).for_each(|number| writer.multicast(Ns(1), leave(number), Ns(2)));
        let base = try_event(&mut reader);
        assert_eq!(
            base,
            Some(BusEvent::Base { as_of: Seq(n_sent), members: vec![], cause: BaseCause::Gap })
        );
        let next = try_event(&mut reader);
        assert!(
            matches!(next, Some(BusEvent::Entry(ref entry)) if entry.seq == Seq(8)),
            "{next:?}"
        );
        assert_eq!((reader.n_lost(), writer.n_lost()), (0, 8));
    }

    #[test]
    fn the_id_of_an_entry_is_known_for_the_window_of_duplicates() {
        let bus = LocalBus::default();
        let mut port = bus.connect("w", None);
        let mut send = |now: u64| {
            port.multicast(Ns(now), leave(1), Ns(now));
            std::iter::from_fn(|| try_event(&mut port))
                .find_map(|event| match event {
                    BusEvent::Sequenced { seq, .. } => Some(seq),
                    _ => None,
                })
                .unwrap()
        };
        assert_eq!(
            [send(0), send(DUPLICATE_WINDOW.0), send(DUPLICATE_WINDOW.0 + 1)],
            [Seq(1), Seq(1), Seq(2)]
        );
    }
}
