//! The entries of the stream, in order, whatever happens to consumers and servers.
//!
//! A consumer of the client library does not always recover after a server was lost, so it is
//! made again: after each reconnection, after an error, and when the stream has entries that did
//! not come for a while. It always begins at a position, never "from now on".

use super::outlet::EventOutlet;
use super::server::{Failed, Server, failed, stream_time};
use super::subject;
use async_nats::jetstream::consumer::{DeliverPolicy, push};
use futures_util::StreamExt;
use monitor_cluster::bus::BusEvent;
use monitor_cluster::bus::entry::{Seq, SequencedEntry};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// After this time without an entry, the stream is asked whether there is one.
const QUIET: Duration = Duration::from_secs(5);
/// Time before a consumer that failed is made again.
const RETRY: Duration = Duration::from_millis(200);

/// Reports all entries from a position on, until the bus is gone.
pub async fn follow(server: Server, mut next: Seq, outlet: EventOutlet, reconnected: Arc<Notify>) {
    loop {
        if let Err(error) = follow_once(&server, &mut next, &outlet, &reconnected).await {
            tracing::info!("bus: {error}");
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Follows the stream until the consumer has to be made again.
async fn follow_once(
    server: &Server,
    next: &mut Seq,
    outlet: &EventOutlet,
    reconnected: &Notify,
) -> Result<(), Failed> {
    check_range(server, next, outlet).await?;
    let config = push::OrderedConfig {
        deliver_subject: server.jetstream.client().new_inbox(),
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: next.0 },
        ..push::OrderedConfig::default()
    };
    let consumer = server.stream.create_consumer(config).await.map_err(failed("consumer"))?;
    let mut messages = consumer.messages().await.map_err(failed("consumer"))?;
    loop {
        let message = tokio::select! {
            message = messages.next() => message,
            () = reconnected.notified() => return Ok(()),
            () = tokio::time::sleep(QUIET) => match is_behind(server, *next).await? {
                true => return Ok(()),
                false => continue,
            },
        };
        let message = message.ok_or("it has ended").map_err(failed("consumer"))?;
        let message = message.map_err(failed("consumer"))?;
        let about = message.info().map_err(failed("position of an entry"))?;
        let (seq, stamp) = (Seq(about.stream_sequence), stream_time(about.published));
        if seq < *next {
            continue;
        }
        *next = Seq(seq.0 + 1);
        if let Some(entry) = subject::read_entry(&message.subject, &message.payload) {
            outlet.put(BusEvent::Entry(SequencedEntry { seq, stamp, entry })).await;
        }
    }
}

/// Whether the stream has entries that did not come, or fewer than came.
async fn is_behind(server: &Server, next: Seq) -> Result<bool, Failed> {
    let (_, last) = server.range().await?;
    Ok(last.0 + 1 != next.0)
}

/// Reports the members again if the stream no longer has the next entry, or has lost some.
async fn check_range(server: &Server, next: &mut Seq, outlet: &EventOutlet) -> Result<(), Failed> {
    let (first, last) = server.range().await?;
    let lost = last.0 + 1 < next.0;
    if lost || first > *next {
        tracing::warn!("the order has entries {} to {}, expected {}", first.0, last.0, next.0);
        let base = server.base().await?;
        outlet.put(base).await;
        *next = if lost { Seq(last.0 + 1) } else { first };
    }
    Ok(())
}
