//! The entries of the stream, in order, whatever happens to consumers and servers.
//!
//! A consumer of the client library does not always recover after a server was lost, so it is
//! made again: after each reconnection, after an error, and when the stream has entries that did
//! not come for a while. It always begins at a position, never "from now on". Before, the last
//! entry that came is compared with what the stream has at its position: a server that has lost
//! entries may have others there.

use super::consumer::Deliveries;
use super::failure::{Failed, ONE_SERVER, TIMEOUT, failed};
use super::outlet::EventOutlet;
use super::server::{EntryMark, OrderState, Server, stream_time};
use super::silence::{QuietSigns, quiet};
use super::subject;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::DeliverPolicy;
use futures_util::StreamExt;
use futures_util::future::select_ok;
use monitor_cluster::bus::entry::{EntryId, Seq, SequencedEntry, StreamTime};
use monitor_cluster::bus::{BaseCause, BusEvent};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Time before a consumer that failed is made again; it is doubled each time, until it is the
/// longest, and not the same on all nodes: servers that are slow because many nodes ask would get
/// slower.
const RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// How long the state of the stream is awaited: only its leader answers, and that from memory.
const STATE: Duration = Duration::from_millis(500);
/// Failures in a row after which it is awaited for `TIMEOUT`: the servers are slow, and elect none.
const ELECTION: u32 = 20;
/// How long a new consumer is awaited at first: nats-server also places them on servers that are
/// lost, as long as it does not know that, and such a consumer is never there.
const NEW_CONSUMER: Duration = Duration::from_millis(500);
/// New consumers of one such time, after which it is doubled: many nodes may make theirs at a time,
/// and one that was given up is made nevertheless.
const SAME_TIME: u32 = 3;

/// The last entry of a node that came in the order.
pub type OwnEntry = Option<(EntryId, Seq)>;

/// What reads the stream.
pub struct OrderReader {
    pub server: Server,
    /// The name of this node.
    pub node: String,
    pub outlet: EventOutlet,
    pub reconnected: Arc<Notify>,
    /// The signs of life of this node.
    pub signs: watch::Receiver<Vec<u8>>,
    /// After how many of them the server is asked.
    pub quiet_signs: QuietSigns,
    /// An entry that is in the order must not be sent again.
    pub own: watch::Sender<OwnEntry>,
}

/// How far the stream was read.
struct Position {
    next: Seq,
    /// The last entry that came, or that members were reported after.
    last: Option<EntryMark>,
    failures: Failures,
}

/// Failures in a row.
#[derive(Clone, Copy)]
struct Failures {
    /// Of anything.
    all: u32,
    /// Of new consumers.
    consumers: u32,
    /// Whether there are several servers: with one, none is elected, and what is late was not lost.
    has_election: bool,
}

impl Failures {
    const fn new(has_election: bool) -> Self {
        Self { all: 0, consumers: 0, has_election }
    }

    /// How long the state of the stream is awaited.
    const fn state(self) -> Duration {
        if self.has_election && self.all < ELECTION { STATE } else { ONE_SERVER }
    }

    /// How long a new consumer is awaited.
    fn consumer(self) -> Duration {
        if !self.has_election {
            return ONE_SERVER;
        }
        NEW_CONSUMER.saturating_mul(1 << (self.consumers / SAME_TIME).min(8)).min(TIMEOUT)
    }

    /// The pause after them; `part` of it, from 0 to 1, is different on each node.
    fn pause(self, part: f64) -> Duration {
        if self.has_election {
            return RETRY;
        }
        let doubled = RETRY.saturating_mul(1 << self.all.min(8)).min(LONGEST_RETRY);
        doubled.mul_f64(0.5 + part / 2.0)
    }
}

/// The servers on which a consumer depends, if there are several.
struct ConsumerServers {
    /// The one that had the consumer.
    host: Option<String>,
    /// The one that led the stream.
    leader: Option<String>,
}

impl ConsumerServers {
    /// Whether the consumer was lost with the leader. Where another server has it, entries that
    /// come later show whether it is there.
    fn are_lost(&self, leader: Option<&String>) -> bool {
        self.host.is_some() && self.host == self.leader && self.leader.as_ref() != leader
    }
}

impl OrderReader {
    /// Reports all entries from a position on, until the bus is gone. `last` is the one after
    /// which the members were reported.
    pub async fn follow(self, next: Seq, last: Option<EntryMark>) {
        let failures = Failures::new(self.server.has_election());
        let mut position = Position { next, last, failures };
        loop {
            if let Err(error) = self.follow_once(&mut position).await {
                tracing::info!("bus: {error}");
                position.failures.all = position.failures.all.saturating_add(1);
                tokio::time::sleep(position.failures.pause(random_part())).await;
            }
        }
    }

    /// Follows the stream until the consumer has to be made again.
    async fn follow_once(&self, position: &mut Position) -> Result<(), Failed> {
        let Self { server, reconnected, .. } = self;
        let mut signs = self.signs.clone();
        let leader = self.check_range(position).await?;
        let Deliveries { mut messages, host, .. } = self.consume(position).await?;
        let servers = ConsumerServers { host, leader };
        position.failures = Failures::new(server.has_election());
        let mut n_delivered = 0;
        // One for all entries: each registration takes a lock.
        let mut reconnected = pin!(reconnected.notified());
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                () = &mut reconnected => return Ok(()),
                () = quiet(&self.quiet_signs, &mut signs) => {
                    // Without an answer the consumer may be lost with its server.
                    let limit = position.failures.state();
                    let state = within(limit, "state of the stream", server.state()).await?;
                    let is_behind = state.last.0 + 1 != position.next.0;
                    if is_behind || servers.are_lost(state.leader.as_ref()) {
                        return Ok(());
                    }
                    continue;
                },
            };
            let message = message.ok_or("it has ended").map_err(failed("consumer"))?;
            let message = message.map_err(failed("consumer"))?;
            let about = message.info().map_err(failed("position of an entry"))?;
            n_delivered += 1;
            if about.consumer_sequence != n_delivered {
                // The next consumer is made after a pause: the server may be slow.
                let before = about.stream_sequence;
                let why = format!("what it delivered before entry {before} was lost");
                return Err(failed("consumer")(why));
            }
            let published = (Seq(about.stream_sequence), stream_time(about.published));
            self.report(&message, published, position).await;
        }
    }

    /// Makes a consumer from the next entry on. If one was not made, the servers may have no leader
    /// that makes it: that is asked first, because a question is answered sooner. Then two are made
    /// at a time, which are rarely both placed on the server that is lost; the other one ends.
    async fn consume(&self, position: &mut Position) -> Result<Deliveries, Failed> {
        if position.failures.has_election && position.failures.consumers > 0 {
            let limit = position.failures.state();
            within(limit, "leader of the servers", self.server.find_leader()).await?;
        }
        let start = DeliverPolicy::ByStartSequence { start_sequence: position.next.0 };
        let make = || Box::pin(self.server.consume("consumer", (start, subject::ORDER)));
        let limit = position.failures.consumer();
        let made = match position.failures {
            Failures { consumers: 0, .. } | Failures { has_election: false, .. } => {
                within(limit, "consumer", make()).await
            }
            _ => {
                let first = select_ok([make(), make()]);
                within(limit, "consumer", first).await.map(|(first, _other)| first)
            }
        };
        position.failures.consumers += u32::from(made.is_err());
        made
    }

    /// Reports an entry that has not come yet.
    async fn report(
        &self,
        message: &async_nats::jetstream::Message,
        (seq, stamp): (Seq, StreamTime),
        position: &mut Position,
    ) {
        if seq < position.next {
            return;
        }
        position.next = Seq(seq.0 + 1);
        let id = message.headers.as_ref().and_then(|it| it.get(NATS_MESSAGE_ID));
        let mark = EntryMark { seq, stamp, id: id.map(|id| id.as_str().to_owned()) };
        // Until the position of the members, that one is compared.
        if position.last.as_ref().is_none_or(|last| last.seq < seq) {
            position.last = Some(mark);
        }
        if let Some(entry) = subject::read_entry(&message.subject, &message.payload) {
            self.quiet_signs.note(&entry.body);
            if entry.origin == self.node {
                self.own.send_replace(Some((entry.id, seq)));
            }
            self.outlet.put(BusEvent::Entry(SequencedEntry { seq, stamp, entry })).await;
        }
    }

    /// Reports the members again if the stream no longer has the next entry, or has lost some.
    /// Returns the server that leads the stream.
    async fn check_range(&self, position: &mut Position) -> Result<Option<String>, Failed> {
        let limit = position.failures.state();
        let at_last = match &position.last {
            Some(last) => within(limit, "entry at a position", self.server.mark(last.seq)).await?,
            None => None,
        };
        let state = within(limit, "state of the stream", self.server.state()).await?;
        let OrderState { first, last, leader } = state;
        let cause = match &position.last {
            _ if last.0 + 1 < position.next.0 => BaseCause::Lost,
            Some(came) if came.seq >= first && at_last.as_ref() != Some(came) => BaseCause::Lost,
            _ if first > position.next => BaseCause::Gap,
            _ => return Ok(leader),
        };
        let Position { next, .. } = position;
        tracing::warn!("the order has {} to {}, expected {}: {cause:?}", first.0, last.0, next.0);
        let base = self.server.base().await?;
        position.next = match cause {
            // Entries up to the position of the members come too: they are to be executed.
            BaseCause::Start | BaseCause::Gap => first,
            BaseCause::Lost => Seq(base.as_of.0 + 1),
        };
        position.last.clone_from(&base.last);
        self.quiet_signs.set_members(base.count());
        self.outlet.put(base.event(cause)).await;
        Ok(leader)
    }
}

/// A number from 0 to 1, another one each time.
fn random_part() -> f64 {
    // Without random numbers all nodes pause for as long.
    let [byte] = monitor_sys::random::bytes::<1>().unwrap_or([u8::MAX]);
    f64::from(byte) / f64::from(u8::MAX)
}

/// Waits for an answer for some time.
async fn within<T>(
    limit: Duration,
    question: &'static str,
    answer: impl Future<Output = Result<T, Failed>>,
) -> Result<T, Failed> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(failed(question)(elapsed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_is_lost_with_the_leader_that_had_it() {
        let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        let are_lost = |host, leader, now| {
            let servers = ConsumerServers { host: name(host), leader: name(leader) };
            servers.are_lost(name(now).as_ref())
        };
        assert!(are_lost("a", "a", "b"));
        // Nothing has changed, or another server has it.
        assert!(!are_lost("a", "a", "a"));
        assert!(!are_lost("c", "a", "b"));
        // There is one server.
        assert!(!are_lost("", "", ""));
    }

    #[test]
    fn a_new_consumer_is_awaited_longer_each_time() {
        let of = |consumers| {
            let failures = Failures { all: 0, consumers, has_election: true };
            failures.consumer().as_millis()
        };
        assert_eq!([0, 2, 3, 5, 6, 100].map(of), [500, 500, 1000, 1000, 2000, 2000]);
    }

    #[test]
    fn one_server_that_is_slow_is_asked_less_often() {
        let failures = |all| Failures { all, consumers: all, has_election: false };
        assert_eq!(failures(3).consumer(), ONE_SERVER);
        let pauses = [1, 2, 9].map(|all| failures(all).pause(1.0).as_millis());
        assert_eq!(pauses, [400, 800, 2000]);
        assert_eq!(failures(9).pause(0.0), LONGEST_RETRY / 2);
    }
}
