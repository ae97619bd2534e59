//! The simulated bus: a server and ports, with loss, delay, copies, partitions and restarts.
//!
//! In: calls of ports, and the true time. Out: events in the queues of ports. All times are true
//! ones; each node has its own boot clock, and the server a wall clock that is wrong.

use super::random::Random;
use crate::bus::entry::{BusEntry, CommandReply, EntryId, Seq, SequencedEntry, StreamTime};
use crate::bus::membership::Membership;
use crate::bus::{Bus, BusEvent, DUPLICATE_WINDOW, OwnRecord, Topic};
use monitor_model::Ns;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

pub const MS: u64 = 1_000_000;
/// By how much the server's wall clock is wrong.
const WRONG_BY: u64 = 3_600_000 * MS;

/// The network; clones share it.
#[derive(Clone)]
pub struct SimNetwork(Arc<Mutex<Shared>>);

pub struct Shared {
    pub now: u64,
    pub random: Random,
    /// Whether the network loses, delays and copies.
    pub is_faulty: bool,
    /// Until when the server is killed.
    pub server_down_until: u64,
    pub log: Vec<SequencedEntry>,
    /// True times of the stamps.
    pub stamped: Vec<u64>,
    members: Membership,
    positions: HashMap<(String, EntryId), Seq>,
    packets: BTreeMap<(u64, u64), Packet>,
    n_packets: u64,
    ports: BTreeMap<u64, Port>,
}

struct Port {
    name: String,
    /// Boot clock minus true time.
    boot: u64,
    next: Seq,
    inbox: VecDeque<BusEvent>,
    is_connected: bool,
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
            is_faulty: true,
            server_down_until: 0,
            log: Vec::new(),
            stamped: Vec::new(),
            members: Membership::default(),
            positions: HashMap::new(),
            packets: BTreeMap::new(),
            n_packets: 0,
            ports: BTreeMap::new(),
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
            next: from.unwrap_or(Seq(last.0 + 1)).max(Seq(1)),
            inbox: VecDeque::from([BusEvent::Base { as_of: last, members }]),
            is_connected: true,
            is_delivering: true,
            unacknowledged: BTreeMap::new(),
        };
        shared.ports.insert(number, port);
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

    pub fn set_connected(&mut self, port: u64, is_connected: bool) {
        if let Some(port) = self.ports.get_mut(&port) {
            port.is_connected = is_connected;
        }
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
        if self.is_faulty && self.random.once_in(12) {
            delays.pop();
        }
        if self.is_faulty && self.random.once_in(12) {
            delays.push(self.delay());
        }
        delays
    }

    fn delay(&mut self) -> u64 {
        let most = match self.random.below(if self.is_faulty { 200 } else { 1 }) {
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
        self.is_server_up() && self.ports.get(&port).is_some_and(|port| port.is_connected)
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
            self.members.apply(&entry);
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
            let delay = self.delay();
            self.send(Packet::Deliver(number), delay);
        }
    }

    fn send_event(&mut self, port: u64, event: BusEvent) {
        for delay in self.delays() {
            self.send(Packet::Event(port, event.clone()), delay);
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
            member: self.members.get(&port.name).cloned(),
            first: Seq(1),
            last: Seq(self.log.len() as u64),
        };
        self.send_event(number, BusEvent::OwnRecord(record));
    }

    fn deliver(&mut self, number: u64) -> Option<u64> {
        let is_reachable = self.is_reachable(number);
        let port = self.ports.get_mut(&number)?;
        let index = usize::try_from(port.next.0 - 1).unwrap();
        let Some(entry) = self.log.get(index).cloned() else {
            port.is_delivering = false;
            return None;
        };
        let delay = self.delay();
        if !is_reachable {
            self.send(Packet::Deliver(number), delay + 300 * MS);
            return None;
        }
        let is_repeated = self.is_faulty && self.random.once_in(30);
        let port = self.ports.get_mut(&number)?;
        port.inbox.push_back(BusEvent::Entry(entry));
        if is_repeated {
            port.next = Seq(port.next.0.saturating_sub(3).max(1));
        } else {
            port.next.0 += 1;
        }
        self.send(Packet::Deliver(number), delay);
        Some(number)
    }

    fn retry(&mut self, number: u64, id: EntryId) {
        let now = self.now;
        let Some(port) = self.ports.get_mut(&number) else { return };
        let Some((entry, give_up)) = port.unacknowledged.get(&id).cloned() else { return };
        if give_up <= now {
            port.unacknowledged.remove(&id);
            return;
        }
        if port.is_connected {
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
        let Some(own) = shared.ports.get(&self.number).filter(|it| it.is_connected) else { return };
        let event = BusEvent::Reply { from: own.name.clone(), reply };
        let ports = shared.ports.iter().filter(|(_, port)| port.name == to);
        let ports: Vec<u64> = ports.map(|(number, _)| *number).collect();
        ports.into_iter().for_each(|port| shared.send_event(port, event.clone()));
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
        self.shared().ports.remove(&self.number);
    }
}
