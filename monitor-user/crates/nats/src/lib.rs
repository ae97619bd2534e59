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

mod beside;
mod connection;
mod consumer;
mod credentials;
#[cfg(test)]
mod deaths;
#[cfg(test)]
mod denials;
mod disconnects;
pub mod doctor;
mod failure;
mod leases;
mod order;
mod outlet;
mod permissions;
mod publish;
mod questions;
#[cfg(test)]
mod racks;
mod server;
mod signs_of_life;
mod silence;
pub mod site;
#[cfg(test)]
mod soak;
mod streams;
mod subject;
#[cfg(any(test, feature = "suite"))]
pub mod suite;
#[cfg(test)]
mod tests;

pub use connection::NatsConnection;
pub use credentials::NatsUser;
pub use failure::Failed;
pub use permissions::Role;
pub use streams::Streams;

use async_nats::Event;
use async_nats::jetstream::ContextBuilder;
use beside::BesideQueue;
use disconnects::Connections;
use failure::{ONE_SERVER, TIMEOUT, failed};
use futures_util::StreamExt;
use monitor_cluster::bus::entry::{BusEntry, CommandReply, Seq};
use monitor_cluster::bus::{BaseCause, Bus, BusEvent, Topic, UnsequencedCause};
use monitor_model::Ns;
use order::OrderReader;
use outlet::EventOutlet;
use publish::{Publication, Publisher};
use questions::Question;
use server::Server;
use silence::QuietSigns;
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
#[derive(Clone)]
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
    beside: BesideQueue,
    outlet: EventOutlet,
    events: mpsc::Receiver<BusEvent>,
    /// The latest sign of life.
    sign: watch::Sender<Vec<u8>>,
    subscriptions: BTreeMap<Topic, Vec<AbortHandle>>,
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
        let [reconnected, alive] = [(); 2].map(|()| Arc::new(Notify::new()));
        let NatsOptions { connection, streams } = options;
        let client = connection.connect(on_event([reconnected.clone(), alive.clone()])).await?;
        let server = open(&client, &streams).await?;
        let node = connection.node;
        let replies = client.subscribe(subject::replies_to(&node)).await;
        let replies = replies.map_err(failed("subscription to replies"))?;
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let outlet = EventOutlet::new(sender);
        let base = server.base().await?;
        let head = Seq(base.as_of.0 + 1);
        let next = from.map_or(head, |from| from.min(head));
        let last = base.last.clone();
        let quiet_signs = QuietSigns::new(server.has_election(), base.count());
        outlet.put(base.event(BaseCause::Start)).await;
        let (publications, publication_queue) = mpsc::channel(MAX_CALLS);
        let (questions, question_queue) = mpsc::channel(MAX_CALLS);
        let (beside, messages) = BesideQueue::new(outlet.clone());
        let mut tasks = JoinSet::new();
        tasks.spawn(messages.publish_all(client.clone()));
        let (own, in_order) = watch::channel(None);
        let (sign, signs) = watch::channel(Vec::new());
        let reader = OrderReader {
            server: server.clone(),
            node: node.clone(),
            outlet: outlet.clone(),
            reconnected,
            signs: signs.clone(),
            quiet_signs: quiet_signs.clone(),
            own,
        };
        tasks.spawn(reader.follow(next, last));
        let publisher = Publisher { server: server.clone(), outlet: outlet.clone(), in_order };
        tasks.spawn(publisher.publish_all(publication_queue));
        tasks.spawn(questions::answer_all(server, node.clone(), question_queue, outlet.clone()));
        tasks.spawn(forward(replies, outlet.clone(), reply_events));
        tasks.spawn(silence::reconnect(client.clone(), quiet_signs, signs.clone()));
        tasks.spawn(signs_of_life::publish_all(client.clone(), node.clone(), signs, alive));
        Ok(Self {
            node,
            runtime: Handle::current(),
            client,
            publications,
            questions,
            beside,
            outlet,
            events,
            sign,
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
}

/// Opens the stream. How long answers are awaited depends on the number of servers.
async fn open(client: &async_nats::Client, streams: &Streams) -> Result<Server, Failed> {
    let context = |limit| ContextBuilder::new().timeout(limit).build(client.clone());
    let info = client.server_info();
    // The server of a rack has no JetStream, and does not say how many servers are behind it.
    let is_of_several = info.jetstream && info.cluster.is_some();
    let limit = if is_of_several { TIMEOUT } else { ONE_SERVER };
    let server = Server::open(context(limit), streams).await?;
    if is_of_several || !server.has_election() {
        return Ok(server);
    }
    Server::open(context(TIMEOUT), streams).await
}

/// Notes that there is a connection again.
fn on_event(reconnected: [Arc<Notify>; 2]) -> impl Fn(Event) + Send + Sync + 'static {
    move |event| match event {
        Event::Connected => reconnected.iter().for_each(|it| it.notify_one()),
        other => tracing::info!("bus: {other}"),
    }
}

/// Forwards messages of a subscription as events.
async fn forward(
    mut messages: async_nats::Subscriber,
    outlet: EventOutlet,
    to_events: impl Fn(async_nats::Message) -> Vec<BusEvent>,
) {
    while let Some(message) = messages.next().await {
        to_events(message).into_iter().for_each(|event| outlet.put_or_lose(event));
    }
}

/// Subscribes, and forwards the messages.
async fn follow(
    client: async_nats::Client,
    subject: String,
    outlet: EventOutlet,
    to_events: impl Fn(async_nats::Message) -> Vec<BusEvent>,
) {
    match client.subscribe(subject).await {
        Ok(messages) => forward(messages, outlet, to_events).await,
        Err(error) => tracing::warn!("subscription: {error}"),
    }
}

/// A reply to this node, or a part of what it follows.
fn reply_events(message: async_nats::Message) -> Vec<BusEvent> {
    let Some(from) = subject::publisher(&message.subject) else { return Vec::new() };
    if let Some(bytes) = message.payload.strip_prefix(&[subject::MESSAGE_MARK]) {
        return vec![BusEvent::Message { from, bytes: bytes.to_vec() }];
    }
    match CommandReply::from_bytes(&message.payload) {
        Ok(reply) => vec![BusEvent::Reply { from, reply }],
        Err(error) => {
            tracing::warn!("reply of {from}: {error}");
            Vec::new()
        }
    }
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
        self.beside.put(subject::reply(&self.node, to), reply.to_bytes());
    }

    fn send(&mut self, to: &str, bytes: Vec<u8>) {
        // Not larger than a message of the server may be: the caller cuts it.
        let marked = [&[subject::MESSAGE_MARK], bytes.as_slice()].concat();
        self.beside.put(subject::reply(&self.node, to), marked);
    }

    fn publish(&mut self, topic: Topic, bytes: Vec<u8>) {
        match topic {
            // This bus has the sender, and its task the receiver.
            Topic::Heartbeat => drop(self.sign.send_replace(bytes)),
            _ => self.beside.put(subject::topic(topic, &self.node), bytes),
        }
    }

    fn subscribe(&mut self, topic: Topic) {
        self.unsubscribe(topic);
        let connections = Arc::new(Connections::default());
        let signs = connections.clone();
        let published = move |message: async_nats::Message| {
            let Some(from) = subject::publisher(&message.subject) else { return Vec::new() };
            if topic == Topic::Heartbeat && !signs.note(&from, &message) {
                return Vec::new();
            }
            vec![BusEvent::Published { from, topic, bytes: message.payload.to_vec() }]
        };
        let (client, outlet) = (self.client.clone(), self.outlet.clone());
        let following = follow(client, subject::topic_of_all(topic), outlet, published);
        let mut tasks = vec![self.tasks.spawn_on(following, &self.runtime)];
        if topic == Topic::Heartbeat {
            for reports in [disconnects::REPORTS, disconnects::REPORTS_OF_RACKS] {
                let connections = connections.clone();
                let ended = move |message: async_nats::Message| {
                    let nodes = connections.ended(&message).into_iter();
                    nodes.map(|node| BusEvent::Disconnected { node }).collect()
                };
                let (client, outlet) = (self.client.clone(), self.outlet.clone());
                let following = follow(client, reports.to_owned(), outlet, ended);
                tasks.push(self.tasks.spawn_on(following, &self.runtime));
            }
        }
        self.subscriptions.insert(topic, tasks);
    }

    fn unsubscribe(&mut self, topic: Topic) {
        self.subscriptions.remove(&topic).into_iter().flatten().for_each(|task| task.abort());
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
