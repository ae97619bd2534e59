//! Messages beside the order: published one after the other, each at most once.
//!
//! In: subjects and bytes. Out: messages, in the order in which they were put: a line of a session
//! that is overtaken by a later one is lost. The client library has a queue of its own, which is
//! full while there is no connection: then messages wait here, and what finds no room is counted.

use super::outlet::EventOutlet;
use async_nats::Client;
use tokio::sync::mpsc;

/// Number of messages that wait: a tool that follows all nodes of a site sends each of them one at
/// the same time.
const MAX_MESSAGES: usize = 65_536;

/// A message, and where it is published.
struct BesideMessage {
    subject: String,
    bytes: Vec<u8>,
}

/// Where messages are put.
pub struct BesideQueue {
    messages: mpsc::Sender<BesideMessage>,
    outlet: EventOutlet,
}

/// What is to be published.
pub struct BesideMessages(mpsc::Receiver<BesideMessage>);

impl BesideQueue {
    /// Both ends of a queue. What finds no room is counted at the outlet.
    pub fn new(outlet: EventOutlet) -> (Self, BesideMessages) {
        let (messages, queue) = mpsc::channel(MAX_MESSAGES);
        (Self { messages, outlet }, BesideMessages(queue))
    }

    /// Puts a message, or counts it as lost.
    pub fn put(&self, subject: String, bytes: Vec<u8>) {
        if self.messages.try_send(BesideMessage { subject, bytes }).is_err() {
            self.outlet.count_lost();
        }
    }
}

impl BesideMessages {
    /// Publishes them until the bus is gone.
    pub async fn publish_all(mut self, client: Client) {
        while let Some(BesideMessage { subject, bytes }) = self.0.recv().await {
            // Only a connection that is closed for good refuses it.
            if let Err(error) = client.publish(subject, bytes.into()).await {
                tracing::debug!("publish: {error}");
            }
        }
    }
}
