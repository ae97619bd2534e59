//! The entries of the stream, in order, whatever happens to consumers and servers.
//!
//! A consumer of the client library does not always recover after a server was lost, so it is
//! made again: after each reconnection, after an error, and when the stream has entries that did
//! not come for a while. It always begins at a position, never "from now on". Before, the last
//! entry that came is compared with what the stream has at its position: a server that has lost
//! entries may have others there.

use super::failure::{Failed, TIMEOUT, failed};
use super::outlet::EventOutlet;
use super::server::{EntryMark, Server, stream_time};
use super::subject;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::DeliverPolicy;
use futures_util::StreamExt;
use monitor_cluster::bus::entry::{EntryId, Seq, SequencedEntry};
use monitor_cluster::bus::{BaseCause, BusEvent};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// After this time without an entry, the stream is asked whether there is one.
const QUIET: Duration = Duration::from_secs(5);
/// Time before a consumer that failed is made again.
const RETRY: Duration = Duration::from_millis(200);

/// The last entry of a node that came in the order.
pub type OwnEntry = Option<(EntryId, Seq)>;

/// What reads the stream.
pub struct OrderReader {
    pub server: Server,
    /// The name of this node.
    pub node: String,
    pub outlet: EventOutlet,
    pub reconnected: Arc<Notify>,
    /// An entry that is in the order must not be sent again.
    pub own: watch::Sender<OwnEntry>,
}

/// How far the stream was read.
struct Position {
    next: Seq,
    /// The last entry that came, or that members were reported after.
    last: Option<EntryMark>,
}

impl OrderReader {
    /// Reports all entries from a position on, until the bus is gone. `last` is the one after
    /// which the members were reported.
    pub async fn follow(self, next: Seq, last: Option<EntryMark>) {
        let mut position = Position { next, last };
        loop {
            if let Err(error) = self.follow_once(&mut position).await {
                tracing::info!("bus: {error}");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Follows the stream until the consumer has to be made again.
    async fn follow_once(&self, position: &mut Position) -> Result<(), Failed> {
        let Self { server, reconnected, .. } = self;
        self.check_range(position).await?;
        let start = DeliverPolicy::ByStartSequence { start_sequence: position.next.0 };
        let mut messages = server.consume("consumer", (start, subject::ORDER)).await?.messages;
        let mut n_delivered = 0;
        loop {
            let message = tokio::select! {
                message = messages.next() => message,
                () = reconnected.notified() => return Ok(()),
                () = tokio::time::sleep(QUIET) => match is_behind(server, position.next).await? {
                    true => return Ok(()),
                    false => continue,
                },
            };
            let message = message.ok_or("it has ended").map_err(failed("consumer"))?;
            let message = message.map_err(failed("consumer"))?;
            let about = message.info().map_err(failed("position of an entry"))?;
            n_delivered += 1;
            if about.consumer_sequence != n_delivered {
                tracing::info!("bus: messages before entry {} were lost", about.stream_sequence);
                return Ok(());
            }
            self.report(&message, position).await?;
        }
    }

    /// Reports an entry that has not come yet.
    async fn report(
        &self,
        message: &async_nats::jetstream::Message,
        position: &mut Position,
    ) -> Result<(), Failed> {
        let about = message.info().map_err(failed("position of an entry"))?;
        let (seq, stamp) = (Seq(about.stream_sequence), stream_time(about.published));
        if seq < position.next {
            return Ok(());
        }
        position.next = Seq(seq.0 + 1);
        let id = message.headers.as_ref().and_then(|it| it.get(NATS_MESSAGE_ID));
        let mark = EntryMark { seq, stamp, id: id.map(|id| id.as_str().to_owned()) };
        // Until the position of the members, that one is compared.
        if position.last.as_ref().is_none_or(|last| last.seq < seq) {
            position.last = Some(mark);
        }
        if let Some(entry) = subject::read_entry(&message.subject, &message.payload) {
            if entry.origin == self.node {
                self.own.send_replace(Some((entry.id, seq)));
            }
            self.outlet.put(BusEvent::Entry(SequencedEntry { seq, stamp, entry })).await;
        }
        Ok(())
    }

    /// Reports the members again if the stream no longer has the next entry, or has lost some.
    async fn check_range(&self, position: &mut Position) -> Result<(), Failed> {
        let at_last = match &position.last {
            Some(last) => self.server.mark(last.seq).await?,
            None => None,
        };
        let (first, last) = self.server.range().await?;
        let cause = match &position.last {
            _ if last.0 + 1 < position.next.0 => BaseCause::Lost,
            Some(came) if came.seq >= first && at_last.as_ref() != Some(came) => BaseCause::Lost,
            _ if first > position.next => BaseCause::Gap,
            _ => return Ok(()),
        };
        let Position { next, .. } = position;
        tracing::warn!("the order has {} to {}, expected {}: {cause:?}", first.0, last.0, next.0);
        let base = self.server.base().await?;
        *position = match cause {
            // Entries up to the position of the members come too: they are to be executed.
            BaseCause::Start | BaseCause::Gap => Position { next: first, last: base.last.clone() },
            BaseCause::Lost => Position { next: Seq(base.as_of.0 + 1), last: base.last.clone() },
        };
        self.outlet.put(base.event(cause)).await;
        Ok(())
    }
}

/// Whether the stream has entries that did not come, or fewer than came.
async fn is_behind(server: &Server, next: Seq) -> Result<bool, Failed> {
    // Without an answer the consumer may be lost with its server: soon it is made again.
    let range = tokio::time::timeout(TIMEOUT / 2, server.range()).await;
    let (_, last) = range.map_err(failed("state of the stream"))??;
    Ok(last.0 + 1 != next.0)
}
