//! A bus that notes the order as its node sees it, and the log of an agent, which outlives it.

use monitor_cluster::bus::entry::{BusEntry, CommandReply, Seq};
use monitor_cluster::bus::{BaseCause, Bus, BusEvent, Topic};
use monitor_model::Ns;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// An entry at its position: a hash of its origin and its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderMark {
    /// The position.
    pub seq: Seq,
    /// Of origin and id.
    pub hash: u64,
}

/// What an agent saw and did, in all its lives.
#[derive(Debug, Default)]
pub struct AgentLog {
    /// The entries, as they came.
    pub order: Vec<OrderMark>,
    /// The commands that were executed: position and payload.
    pub executed: Vec<(Seq, Vec<u8>)>,
    /// How often the bus has lost entries that it had accepted.
    pub n_losses: u32,
    /// What failed, as an administrator would read it.
    pub failures: Vec<String>,
}

/// A log that tasks share.
pub type SharedLog = Arc<Mutex<AgentLog>>;

/// The log; each change of it is whole, also after a panic.
pub fn locked(log: &SharedLog) -> MutexGuard<'_, AgentLog> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bus, and where the order is noted.
pub struct RecordedBus {
    pub bus: Box<dyn Bus>,
    pub log: SharedLog,
}

impl RecordedBus {
    fn note(&self, event: &BusEvent) {
        match event {
            BusEvent::Entry(at) => {
                let mut hasher = DefaultHasher::new();
                (&at.entry.origin, at.entry.id).hash(&mut hasher);
                let mark = OrderMark { seq: at.seq, hash: hasher.finish() };
                locked(&self.log).order.push(mark);
            }
            BusEvent::Base { cause: BaseCause::Lost, .. } => locked(&self.log).n_losses += 1,
            _ => {}
        }
    }
}

impl Bus for RecordedBus {
    fn multicast(&mut self, now: Ns, entry: BusEntry, give_up: Ns) {
        self.bus.multicast(now, entry, give_up);
    }

    fn reply(&mut self, to: &str, reply: CommandReply) {
        self.bus.reply(to, reply);
    }

    fn send(&mut self, to: &str, bytes: Vec<u8>) {
        self.bus.send(to, bytes);
    }

    fn publish(&mut self, topic: Topic, bytes: Vec<u8>) {
        self.bus.publish(topic, bytes);
    }

    fn subscribe(&mut self, topic: Topic) {
        self.bus.subscribe(topic);
    }

    fn unsubscribe(&mut self, topic: Topic) {
        self.bus.unsubscribe(topic);
    }

    fn read_own_record(&mut self, now: Ns) {
        self.bus.read_own_record(now);
    }

    fn request_lease(&mut self, now: Ns, name: &str, duration: Ns) {
        self.bus.request_lease(now, name, duration);
    }

    fn release_lease(&mut self, name: &str) {
        self.bus.release_lease(name);
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<BusEvent> {
        let event = self.bus.poll_event(context);
        if let Poll::Ready(event) = &event {
            self.note(event);
        }
        event
    }

    fn n_lost(&self) -> u64 {
        self.bus.n_lost()
    }
}
