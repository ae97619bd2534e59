//! The bus between nodes, carried by NATS: the sequence of a JetStream stream is the order.
//!
//! ```text
//!  NatsBus --calls--> publisher --> stream MONCMD --> order --> events --> NatsBus
//!          --calls--> questions (own record, leases) ---------> events
//!          --calls--> subjects beside the stream -------------> events
//! ```
//!
//! Tasks of the runtime that connects do the waiting: no thread of its own. A server that is gone
//! is tried again; what that means for an entry is documented at `Bus::multicast`.

mod connection;
mod consumer;
mod credentials;
#[cfg(test)]
mod denials;
pub mod doctor;
mod failure;
mod order;
mod outlet;
mod permissions;
mod publish;
mod questions;
mod server;
pub mod site;
#[cfg(test)]
mod site_server;
mod streams;
mod subject;
#[cfg(test)]
mod tests;

pub use connection::NatsConnection;
pub use credentials::NatsUser;
pub use failure::Failed;
pub use permissions::Role;
pub use streams::Streams;

use async_nats::Event;
use failure::{TIMEOUT, failed};
use futures_util::StreamExt;
use monitor_cluster::bus::entry::{BusEntry, CommandReply, Seq};
use monitor_cluster::bus::{BaseCause, Bus, BusEvent, Topic, UnsequencedCause};
use monitor_model::Ns;
use order::OrderReader;
use outlet::EventOutlet;
use publish::{Publication, Publisher};
use questions::Question;
use server::Server;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

/// Number of events that wait: the order then waits too, other messages are lost and counted.
const MAX_EVENTS: usize = 16_384;
/// Number of entries and questions that wait while the server is gone.
const MAX_CALLS: usize = 4_096;

/// How to reach the servers, and what there is to find.
pub struct NatsOptions {
    /// The servers, and the user of this node.
    pub connection: NatsConnection,
    /// The streams, and whether this node makes them.
    pub streams: Streams,
}

/// A node's connection to NATS.
pub struct NatsBus {
    node: String,
    /// The runtime that has connected; calls may come from any thread.
    runtime: Handle,
    client: async_nats::Client,
    publications: mpsc::Sender<Publication>,
    questions: mpsc::Sender<Question>,
    outlet: EventOutlet,
    events: mpsc::Receiver<BusEvent>,
    subscriptions: BTreeMap<Topic, AbortHandle>,
    /// Ends with the bus.
    tasks: JoinSet<()>,
}

impl NatsBus {
    /// Connects, and makes the stream if there is none. Entries come from the next one on, or from
    /// an earlier position.
    ///
    /// # Errors
    /// The server cannot be reached, or has no JetStream.
    pub async fn connect(options: NatsOptions, from: Option<Seq>) -> Result<Self, Failed> {
        let reconnected = Arc::new(Notify::new());
        let NatsOptions { connection, streams } = options;
        let client = connection.connect(on_event(reconnected.clone())).await?;
        let context = async_nats::jetstream::ContextBuilder::new().timeout(TIMEOUT);
        let server = Server::open(context.build(client.clone()), &streams).await?;
        let node = connection.node;
        let replies = client.subscribe(subject::replies_to(&node)).await;
        let replies = replies.map_err(failed("subscription to replies"))?;
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let outlet = EventOutlet::new(sender);
        let base = server.base().await?;
        let head = Seq(base.as_of.0 + 1);
        let next = from.map_or(head, |from| from.min(head));
        let last = base.last.clone();
        outlet.put(base.event(BaseCause::Start)).await;
        let (publications, publication_queue) = mpsc::channel(MAX_CALLS);
        let (questions, question_queue) = mpsc::channel(MAX_CALLS);
        let mut tasks = JoinSet::new();
        let (own, in_order) = watch::channel(None);
        let reader = OrderReader {
            server: server.clone(),
            node: node.clone(),
            outlet: outlet.clone(),
            reconnected,
            own,
        };
        tasks.spawn(reader.follow(next, last));
        let publisher = Publisher { server: server.clone(), outlet: outlet.clone(), in_order };
        tasks.spawn(publisher.publish_all(publication_queue));
        tasks.spawn(questions::answer_all(server, node.clone(), question_queue, outlet.clone()));
        tasks.spawn(forward(replies, outlet.clone(), reply_event));
        Ok(Self {
            node,
            runtime: Handle::current(),
            client,
            publications,
            questions,
            outlet,
            events,
            subscriptions: BTreeMap::new(),
            tasks,
        })
    }

    fn ask(&self, question: Question) {
        // A question that is not answered is asked again by the caller that needs it.
        if self.questions.try_send(question).is_err() {
            self.outlet.count_lost();
        }
    }

    /// Publishes beside the order, at most once.
    fn publish_beside(&mut self, subject: String, bytes: Vec<u8>) {
        let client = self.client.clone();
        while self.tasks.try_join_next().is_some() {}
        let publish = async move {
            // Only a connection that is closed for good refuses it.
            if let Err(error) = client.publish(subject, bytes.into()).await {
                tracing::debug!("publish: {error}");
            }
        };
        self.tasks.spawn_on(publish, &self.runtime);
    }
}

/// Notes that there is a connection again.
fn on_event(reconnected: Arc<Notify>) -> impl Fn(Event) + Send + Sync + 'static {
    move |event| match event {
        Event::Connected => reconnected.notify_one(),
        other => tracing::info!("bus: {other}"),
    }
}

/// Forwards messages of a subscription as events.
async fn forward(
    mut messages: async_nats::Subscriber,
    outlet: EventOutlet,
    to_event: impl Fn(async_nats::Message) -> Option<BusEvent>,
) {
    while let Some(message) = messages.next().await {
        if let Some(event) = to_event(message) {
            outlet.put_or_lose(event);
        }
    }
}

fn reply_event(message: async_nats::Message) -> Option<BusEvent> {
    let from = subject::publisher(&message.subject)?;
    let reply = CommandReply::from_bytes(&message.payload);
    let reply = reply.inspect_err(|error| tracing::warn!("reply of {from}: {error}")).ok()?;
    Some(BusEvent::Reply { from, reply })
}

impl Bus for NatsBus {
    fn multicast(&mut self, _now: Ns, entry: BusEntry, give_up: Ns) {
        let entry = BusEntry { origin: self.node.clone(), ..entry };
        if let Err(error) = self.publications.try_send(Publication { entry, give_up }) {
            let why = format!("{MAX_CALLS} entries wait for the server");
            let (id, why) = (error.into_inner().entry.id, UnsequencedCause::Refused(why));
            self.outlet.put_or_lose(BusEvent::Unsequenced { id, why });
        }
    }

    fn reply(&mut self, to: &str, reply: CommandReply) {
        self.publish_beside(subject::reply(&self.node, to), reply.to_bytes());
    }

    fn publish(&mut self, topic: Topic, bytes: Vec<u8>) {
        self.publish_beside(subject::topic(topic, &self.node), bytes);
    }

    fn subscribe(&mut self, topic: Topic) {
        let (client, outlet) = (self.client.clone(), self.outlet.clone());
        let forwarding = async move {
            match client.subscribe(subject::topic_of_all(topic)).await {
                Ok(messages) => {
                    let to_event = |message: async_nats::Message| {
                        let from = subject::publisher(&message.subject)?;
                        Some(BusEvent::Published { from, topic, bytes: message.payload.to_vec() })
                    };
                    forward(messages, outlet, to_event).await;
                }
                Err(error) => tracing::warn!("subscription: {error}"),
            }
        };
        let task = self.tasks.spawn_on(forwarding, &self.runtime);
        if let Some(earlier) = self.subscriptions.insert(topic, task) {
            earlier.abort();
        }
    }

    fn unsubscribe(&mut self, topic: Topic) {
        if let Some(task) = self.subscriptions.remove(&topic) {
            task.abort();
        }
    }

    fn read_own_record(&mut self, now: Ns) {
        self.ask(Question::OwnRecord { asked: now });
    }

    fn request_lease(&mut self, now: Ns, name: &str, duration: Ns) {
        self.ask(Question::Lease { name: name.to_owned(), asked: now, duration });
    }

    fn release_lease(&mut self, name: &str) {
        self.ask(Question::Release { name: name.to_owned() });
    }

    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<BusEvent> {
        // This bus has a sender, so that the queue is never closed.
        self.events.poll_recv(context).map(|event| event.expect("the queue has a sender"))
    }

    fn n_lost(&self) -> u64 {
        self.outlet.n_lost()
    }
}
