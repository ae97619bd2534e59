//! The floor of a gather: the same bytes over the same kind of server, user, stream and consumer,
//! by a program that has the client library alone.
//!
//! In: how a user connects. Out: the time from sending a command until all replies are there. It
//! has no membership, no ledger and no outcome, and decodes nothing.

use crate::connection::NatsConnection;
use crate::consumer::consume;
use crate::failure::{Failed, failed};
use crate::streams::{STREAM, Streams};
use crate::subject;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::{Client, HeaderMap, Subscriber, jetstream};
use futures_util::StreamExt as _;
use monitor_cluster::bus::entry::{
    BusEntry, Command, CommandReply, EntryBody, EntryId, ReplyStatus, Seq, StreamTime, Targets,
};
use monitor_model::Ns;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The bytes of a command to all members, as the bus carries them.
pub fn command_bytes(origin: &str, payload: &[u8]) -> Vec<u8> {
    let within = Ns(5_000_000_000);
    let body = EntryBody::Command(Command {
        targets: Targets::All,
        uid: 0,
        begin_within: within,
        not_after: StreamTime(2_500_000_000_000_000_000),
        payload: payload.to_vec(),
    });
    BusEntry { origin: origin.to_owned(), id: id(1), body }.to_bytes()
}

/// The bytes of a reply with this result, as the bus carries them.
pub fn reply_bytes(result: &[u8]) -> Vec<u8> {
    let status = ReplyStatus::Executed;
    CommandReply { id: id(1), seq: Seq(1000), status, result: result.to_vec() }.to_bytes()
}

/// An id as long as those of a service.
const fn id(number: u64) -> EntryId {
    EntryId { start: u64::MAX / 3, number }
}

/// A node that replies to each command.
pub struct FloorNode {
    client: Client,
    commands: jetstream::consumer::push::Messages,
    reply: (String, Vec<u8>),
}

impl FloorNode {
    /// Connects; replies to this caller with these bytes.
    ///
    /// # Errors
    /// The server cannot be reached, or has no stream.
    pub async fn connect(
        connection: &NatsConnection,
        (caller, reply): (&str, Vec<u8>),
    ) -> Result<Self, Failed> {
        let client = connection.connect(|_| {}).await?;
        let context = jetstream::new(client.clone());
        let mut stream = context.get_stream(STREAM).await.map_err(failed("stream"))?;
        let info = stream.info().await.map_err(failed("state of the stream"))?;
        let start_sequence = info.state.last_sequence + 1;
        let start = DeliverPolicy::ByStartSequence { start_sequence };
        let deliveries = consume((&context, &stream), "consumer", (start, subject::ORDER)).await?;
        let reply = (subject::reply(&connection.node, caller), reply);
        Ok(Self { client, commands: deliveries.messages, reply })
    }

    /// Replies until the connection ends.
    ///
    /// # Errors
    /// The consumer or the connection has failed.
    pub async fn answer_all(mut self) -> Result<(), Failed> {
        let (subject, bytes) = self.reply;
        while let Some(command) = self.commands.next().await {
            let _command = command.map_err(failed("consumer"))?;
            let sent = self.client.publish(subject.clone(), bytes.clone().into()).await;
            sent.map_err(failed("reply"))?;
        }
        Ok(())
    }
}

/// What sends commands.
pub struct FloorCaller {
    node: String,
    client: Client,
    replies: Subscriber,
    number: u64,
}

impl FloorCaller {
    /// Connects, and makes the stream if there is none.
    ///
    /// # Errors
    /// The server cannot be reached, or the user may not make streams.
    pub async fn connect(connection: &NatsConnection, streams: &Streams) -> Result<Self, Failed> {
        let client = connection.connect(|_| {}).await?;
        let context = jetstream::new(client.clone());
        let made = context.get_or_create_stream(streams.order()).await;
        made.map_err(failed("stream"))?;
        let replies = client.subscribe(subject::replies_to(&connection.node)).await;
        let replies = replies.map_err(failed("subscription"))?;
        Ok(Self { node: connection.node.clone(), client, replies, number: 0 })
    }

    /// Whether the servers accept an entry within half a second, and have a leader that makes
    /// consumers.
    pub async fn is_accepted(&mut self, bytes: &[u8]) -> bool {
        const WITHIN: Duration = Duration::from_millis(500);
        let context = jetstream::new(self.client.clone());
        let accepted = async {
            let sent = context.publish(self.subject(), bytes.to_vec().into()).await;
            let _position = sent.ok()?.await.ok()?;
            self.client.request("$JS.API.INFO", "".into()).await.ok()
        };
        timeout(WITHIN, accepted).await.is_ok_and(|it| it.is_some())
    }

    fn subject(&self) -> String {
        format!("mon.cmd.{}.0", subject::token(&self.node))
    }

    /// Sends a command; how long it took until this number of replies had come. `None` if they do
    /// not come within some seconds.
    ///
    /// # Errors
    /// The connection has failed.
    pub async fn gather(
        &mut self,
        bytes: &[u8],
        n_nodes: usize,
    ) -> Result<Option<Duration>, Failed> {
        const WITHIN: Duration = Duration::from_secs(5);
        self.number += 1;
        let mut headers = HeaderMap::new();
        let message_id = format!("{}-{:x}-{}", self.node, id(1).start, self.number);
        headers.insert(NATS_MESSAGE_ID, message_id.as_str());
        let start = Instant::now();
        let bytes = bytes.to_vec().into();
        let sent = self.client.publish_with_headers(self.subject(), headers, bytes).await;
        sent.map_err(failed("command"))?;
        let all = async {
            for _ in 0..n_nodes {
                let _reply = self.replies.next().await?;
            }
            Some(start.elapsed())
        };
        Ok(timeout(WITHIN, all).await.ok().flatten())
    }
}
