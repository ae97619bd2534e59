//! The simulated bus: a server and ports, with loss, delay, copies, partitions, restarts, entries
//! that are dropped because they are old, and entries that the server loses.
//!
//! In: calls of ports, and the true time. Out: events in the queues of ports. All times are true
//! ones; each node has its own boot clock, and the server a wall clock that is wrong.

use super::random::Random;
use crate::bus::entry::{BusEntry, CommandReply, EntryId, Seq, SequencedEntry, StreamTime};
use crate::bus::membership::{Membership, MembershipChange};
use crate::bus::{BaseCause, Bus, BusEvent, DUPLICATE_WINDOW, OwnRecord, Topic};
use monitor_model::Ns;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

pub const MS: u64 = 1_000_000;
/// By how much the server's wall clock is wrong.
const WRONG_BY: u64 = 3_600_000 * MS;

/// Number of entries that arrive together.
const BATCH: usize = 16;

/// The network; clones share it.
#[derive(Clone)]
pub struct SimNetwork(Arc<Mutex<Shared>>);

pub struct Shared {
    pub now: u64,
    pub random: Random,
    /// How often the network loses, delays and copies.
    pub faults: Faults,
    /// Until when the server is killed.
    pub server_down_until: u64,
    log: Vec<SequencedEntry>,
    /// True times of the stamps.
    stamped: Vec<u64>,
    /// The oldest position that is kept.
    pub first: Seq,
    /// Number of times that the server has lost entries.
    generation: u64,
    /// Each entry that got a position, also if it was lost.
    pub placed: HashMap<(EntryId, Seq), Placement>,
    pub removals: Vec<Removal>,
    /// How often something happened.
    pub counts: BTreeMap<&'static str, u64>,
    members: Membership,
    positions: HashMap<(String, EntryId), Seq>,
    packets: BTreeMap<(u64, u64), Packet>,
    n_packets: u64,
    ports: BTreeMap<u64, Port>,
    /// The port of each name.
    named: HashMap<String, u64>,
}

/// How often the network loses, delays and copies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    None,
    Rare,
    Frequent,
}

/// When an entry got its position.
#[derive(Clone, Copy)]
pub struct Placement {
    pub generation: u64,
    /// True time.
    pub at: u64,
}

/// The end of a stay by a service node.
pub struct Removal {
    pub node: String,
    pub seq: Seq,
    /// True time.
    pub at: u64,
}

struct Port {
    name: String,
    /// Boot clock minus true time.
    boot: u64,
    next: Seq,
    /// The last entry that was delivered, or that members were reported after, and its stamp.
    last: Option<(Seq, EntryId, StreamTime)>,
    inbox: VecDeque<BusEvent>,
    /// Until when it is cut off from the server.
    cut_until: u64,
    /// Whether a packet `Deliver` is under way.
    is_delivering: bool,
    /// Entries without a position, and until when they are tried.
    unacknowledged: BTreeMap<EntryId, (BusEntry, u64)>,
}

/// What is under way, or due.
enum Packet {
    /// Of the port: an entry.
    Publish(u64, BusEntry),
    /// For the port: an event.
    Event(u64, BusEvent),
    /// Of the port: a question, asked at that time of its boot clock.
    Question(u64, Ns),
    /// The port's next entry is due.
    Deliver(u64),
    /// The port tries again.
    Retry(u64, EntryId),
}

/// A node's port.
pub struct SimPort {
    network: SimNetwork,
    pub number: u64,
}

impl SimNetwork {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Shared {
            now: 0,
            random: Random(seed),
            faults: Faults::Rare,
            server_down_until: 0,
            log: Vec::new(),
            stamped: Vec::new(),
            first: Seq(1),
            generation: 0,
            placed: HashMap::new(),
            removals: Vec::new(),
            counts: BTreeMap::new(),
            members: Membership::default(),
            positions: HashMap::new(),
            packets: BTreeMap::new(),
            n_packets: 0,
            ports: BTreeMap::new(),
            named: HashMap::new(),
        })))
    }

    pub fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap()
    }

    /// Adds a port whose boot clock is `boot` ahead of the true time.
    pub fn connect(&self, name: &str, boot: u64, from: Option<Seq>) -> SimPort {
        let mut shared = self.lock();
        let number = shared.n_packets + 1_000_000_000;
        let last = Seq(shared.log.len() as u64);
        let members = shared.members.iter().cloned().collect();
        let port = Port {
            name: name.to_owned(),
            boot,
            next: from.unwrap_or(Seq(last.0 + 1)).clamp(Seq(1), Seq(last.0 + 1)),
            last: shared.last_mark(),
            inbox: VecDeque::from([BusEvent::Base {
                as_of: last,
                members,
                cause: BaseCause::Start,
            }]),
            cut_until: 0,
            is_delivering: true,
            unacknowledged: BTreeMap::new(),
        };
        shared.ports.insert(number, port);
        shared.named.insert(name.to_owned(), number);
        shared.send(Packet::Deliver(number), 0);
        drop(shared);
        SimPort { network: self.clone(), number }
    }
}

impl Shared {
    /// When the next packet arrives.
    pub fn due(&self) -> Option<u64> {
        self.packets.keys().next().map(|(at, _)| *at)
    }

    /// Handles the next packet; returns a port that has a new event.
    pub fn advance(&mut self) -> Option<u64> {
        let ((at, _), packet) = self.packets.pop_first()?;
        self.now = self.now.max(at);
        match packet {
            Packet::Publish(port, entry) => self.publish_arrived(port, entry),
            Packet::Event(port, event) => return self.event_arrived(port, event),
            Packet::Question(port, asked) => self.question_arrived(port, asked),
            Packet::Deliver(port) => return self.deliver(port),
            Packet::Retry(port, id) => self.retry(port, id),
        }
        None
    }

    /// Cuts a port off from the server until this time.
    pub fn cut(&mut self, port: u64, until: u64) {
        if let Some(port) = self.ports.get_mut(&port) {
            port.cut_until = until;
        }
    }

    /// A port that is not cut off.
    fn connected(&self, port: u64) -> Option<&Port> {
        self.ports.get(&port).filter(|port| port.cut_until <= self.now)
    }

    pub fn has_events(&self, port: u64) -> bool {
        self.ports.get(&port).is_some_and(|port| !port.inbox.is_empty())
    }

    fn send(&mut self, packet: Packet, delay: u64) {
        self.n_packets += 1;
        self.packets.insert((self.now + delay, self.n_packets), packet);
    }

    /// The delays of a packet's copies: none if it is lost.
    fn delays(&mut self) -> Vec<u64> {
        let mut delays = vec![self.delay()];
        if self.is_faulty(25, 300) {
            delays.pop();
            self.count("lost messages");
        }
        if self.is_faulty(25, 300) {
            delays.push(self.delay());
            self.count("copied messages");
        }
        delays
    }

    /// Whether a fault happens that does so once in this number of times.
    fn is_faulty(&mut self, frequent: u64, rare: u64) -> bool {
        match self.faults {
            Faults::None => false,
            Faults::Rare => self.random.once_in(rare),
            Faults::Frequent => self.random.once_in(frequent),
        }
    }

    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Drops the oldest entries, but for some.
    pub fn drop_oldest(&mut self, n_kept: u64) {
        let first = (self.log.len() as u64 + 1).saturating_sub(n_kept);
        self.first = self.first.max(Seq(first));
    }

    /// The server loses its power, and entries that it has acknowledged. Connections end: what
    /// was under way is lost too.
    pub fn lose_entries(&mut self, n: usize) {
        let len = self.log.len().saturating_sub(n).max(usize::try_from(self.first.0 - 1).unwrap());
        self.log.truncate(len);
        self.stamped.truncate(len);
        self.generation += 1;
        let last = Seq(len as u64);
        self.positions.retain(|_, seq| *seq <= last);
        self.removals.retain(|removal| removal.seq <= last);
        self.members = Membership::default();
        self.log.iter().for_each(|entry| drop(self.members.apply(entry)));
        self.packets.retain(|_, it| matches!(it, Packet::Deliver(_) | Packet::Retry(..)));
        // A port that is connected again compares its last entry.
        self.deliver_to_all();
        self.count("losses of entries");
    }

    fn delay(&mut self) -> u64 {
        let below = match self.faults {
            Faults::None => 1,
            // The last ones, which are late, are as rare as that.
            Faults::Rare if self.random.once_in(20) => 200,
            Faults::Rare => 150,
            Faults::Frequent => 200,
        };
        let most = match self.random.below(below) {
            // Stuck in a buffer, for longer than copies are recognized.
            199 => DUPLICATE_WINDOW.0 / MS * 2,
            190..199 => 3_000,
            150..190 => 200,
            _ => 5,
        };
        MS / 10 + self.random.below(most * MS)
    }

    const fn is_server_up(&self) -> bool {
        self.server_down_until <= self.now
    }

    fn is_reachable(&self, port: u64) -> bool {
        self.is_server_up() && self.connected(port).is_some()
    }

    fn publish_arrived(&mut self, port: u64, entry: BusEntry) {
        // A copy in a buffer of the network arrives also when its port is gone.
        if !self.is_server_up() {
            return;
        }
        let (key, id) = ((entry.origin.clone(), entry.id), entry.id);
        let known = self.positions.get(&key).copied().filter(|seq| {
            let index = usize::try_from(seq.0 - 1).unwrap();
            self.now - self.stamped[index] < DUPLICATE_WINDOW.0
        });
        let seq = known.unwrap_or_else(|| {
            let seq = Seq(self.log.len() as u64 + 1);
            self.positions.insert(key, seq);
            let entry = SequencedEntry { seq, stamp: StreamTime(self.now + WRONG_BY), entry };
            let (generation, at) = (self.generation, self.now);
            self.placed.insert((id, seq), Placement { generation, at });
            if let MembershipChange::Removed(member) = self.members.apply(&entry) {
                self.removals.push(Removal { node: member.node, seq, at });
            }
            self.log.push(entry);
            self.stamped.push(self.now);
            self.deliver_to_all();
            seq
        });
        self.send_event(port, BusEvent::Sequenced { id, seq });
    }

    fn deliver_to_all(&mut self) {
        let idle = self.ports.iter_mut().filter(|(_, port)| !port.is_delivering);
        let idle = idle.map(|(number, port)| {
            port.is_delivering = true;
            *number
        });
        for number in idle.collect::<Vec<_>>() {
            let delay = self.delay().min(500 * MS);
            self.send(Packet::Deliver(number), delay);
        }
    }

    fn send_event(&mut self, port: u64, event: BusEvent) {
        for delay in self.delays() {
            self.send(Packet::Event(port, event.clone()), delay);
        }
    }

    /// Sends an event to the port of this name, if it is there.
    fn send_to(&mut self, name: &str, event: BusEvent) {
        if let Some(port) = self.named.get(name) {
            self.send_event(*port, event);
        }
    }

    fn event_arrived(&mut self, number: u64, event: BusEvent) -> Option<u64> {
        let is_reachable = self.is_reachable(number);
        let port = self.ports.get_mut(&number).filter(|_| is_reachable)?;
        if let BusEvent::Sequenced { id, .. } = &event {
            port.unacknowledged.remove(id)?;
        }
        port.inbox.push_back(event);
        Some(number)
    }

    fn question_arrived(&mut self, number: u64, asked: Ns) {
        if !self.is_reachable(number) {
            return;
        }
        let Some(port) = self.ports.get(&number) else { return };
        let record = OwnRecord {
            asked,
            stamp: StreamTime(self.now + WRONG_BY),
            // The answer is not there yet.
            stamped: Ns(u64::MAX),
            member: self.members.get(&port.name).cloned(),
            kept: Some((self.first, Seq(self.log.len() as u64))),
        };
        self.send_event(number, BusEvent::OwnRecord(record));
    }

    fn deliver(&mut self, number: u64) -> Option<u64> {
        let is_reachable = self.is_reachable(number);
        // Entries wait for each other: what is stuck for long is a partition.
        let delay = self.delay().min(500 * MS);
        if !is_reachable {
            self.send(Packet::Deliver(number), delay + 300 * MS);
            return None;
        }
        let n_back = match self.is_faulty(60, 2_000) {
            true => 1 + self.random.below(40),
            false => 0,
        };
        if let Some((cause, next)) = self.cause_of_base(number) {
            self.count(if cause == BaseCause::Gap { "gaps" } else { "losses noticed" });
            let as_of = Seq(self.log.len() as u64);
            let members = self.members.iter().cloned().collect();
            let last = self.last_mark();
            let port = self.ports.get_mut(&number)?;
            port.inbox.push_back(BusEvent::Base { as_of, members, cause });
            (port.next, port.last) = (next, last);
            self.send(Packet::Deliver(number), delay);
            return Some(number);
        }
        let port = self.ports.get_mut(&number)?;
        let start = usize::try_from(port.next.0 - 1).unwrap();
        let entries: Vec<_> = self.log.iter().skip(start).take(BATCH).cloned().collect();
        port.is_delivering = !entries.is_empty();
        for entry in entries {
            port.last = port.last.max(Some((entry.seq, entry.entry.id, entry.stamp)));
            port.next = Seq(entry.seq.0 + 1);
            if entry.entry.origin == port.name {
                // An entry that is in the order is not sent again.
                port.unacknowledged.remove(&entry.entry.id);
            }
            port.inbox.push_back(BusEvent::Entry(entry));
        }
        if !port.is_delivering {
            return None;
        }
        port.next = Seq(port.next.0.saturating_sub(n_back)).max(self.first);
        if n_back > 0 {
            self.count("repeated entries");
        }
        self.send(Packet::Deliver(number), delay);
        Some(number)
    }

    /// By what the last entry is recognized.
    fn last_mark(&self) -> Option<(Seq, EntryId, StreamTime)> {
        self.log.last().map(|entry| (entry.seq, entry.entry.id, entry.stamp))
    }

    /// Why a port needs the members again, if it does, and its next position then.
    fn cause_of_base(&self, number: u64) -> Option<(BaseCause, Seq)> {
        let port = self.ports.get(&number)?;
        let is_lost = port.last.is_some_and(|(seq, id, stamp)| {
            let index = usize::try_from(seq.0 - 1).unwrap();
            self.log.get(index).is_none_or(|it| (it.entry.id, it.stamp) != (id, stamp))
        });
        if is_lost {
            return Some((BaseCause::Lost, Seq(self.log.len() as u64 + 1)));
        }
        (port.next < self.first).then_some((BaseCause::Gap, self.first))
    }

    fn retry(&mut self, number: u64, id: EntryId) {
        let now = self.now;
        let Some(port) = self.ports.get_mut(&number) else { return };
        let Some((entry, give_up)) = port.unacknowledged.get(&id).cloned() else { return };
        if give_up <= now {
            port.unacknowledged.remove(&id);
            return;
        }
        if port.cut_until <= now {
            for delay in self.delays() {
                self.send(Packet::Publish(number, entry.clone()), delay);
            }
        }
        let delay = 100 * MS + self.delay();
        self.send(Packet::Retry(number, id), delay);
    }
}

impl SimPort {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.network.lock()
    }
}

impl Bus for SimPort {
    fn multicast(&mut self, _now: Ns, entry: BusEntry, give_up: Ns) {
        let mut shared = self.shared();
        let id = entry.id;
        let Some(port) = shared.ports.get_mut(&self.number) else { return };
        let give_up = give_up.0 - port.boot;
        port.unacknowledged.insert(id, (entry, give_up));
        shared.send(Packet::Retry(self.number, id), 0);
    }

    fn reply(&mut self, to: &str, reply: CommandReply) {
        let mut shared = self.shared();
        let Some(own) = shared.connected(self.number) else { return };
        let event = BusEvent::Reply { from: own.name.clone(), reply };
        shared.send_to(to, event);
    }

    fn read_own_record(&mut self, now: Ns) {
        let mut shared = self.shared();
        for delay in shared.delays() {
            shared.send(Packet::Question(self.number, now), delay);
        }
    }

    fn poll_event(&mut self, _context: &mut Context<'_>) -> Poll<BusEvent> {
        let mut shared = self.shared();
        let event = shared.ports.get_mut(&self.number).and_then(|port| port.inbox.pop_front());
        event.map_or(Poll::Pending, Poll::Ready)
    }

    fn send(&mut self, to: &str, bytes: Vec<u8>) {
        let mut shared = self.shared();
        let Some(own) = shared.connected(self.number) else { return };
        let event = BusEvent::Message { from: own.name.clone(), bytes };
        shared.send_to(to, event);
    }

    // Commands need none of these.
    fn publish(&mut self, _topic: Topic, _bytes: Vec<u8>) {}
    fn subscribe(&mut self, _topic: Topic) {}
    fn unsubscribe(&mut self, _topic: Topic) {}
    fn request_lease(&mut self, _now: Ns, _name: &str, _duration: Ns) {}
    fn release_lease(&mut self, _name: &str) {}

    fn n_lost(&self) -> u64 {
        0
    }
}

impl Drop for SimPort {
    fn drop(&mut self) {
        let mut shared = self.shared();
        if let Some(port) = shared.ports.remove(&self.number) {
            shared.named.remove(&port.name);
        }
    }
}
