//! The sessions that run on this node for tools of other nodes: a connection inside the daemon for
//! each, and a task that reads it.
//!
//! In: connections that commands have opened, messages of the nodes that follow them. Out: their
//! lines, as messages. A session reads on only while there is room: what it does not read fills its
//! outbox, which then drops and counts samples as for any client.

use super::following::BusNode;
use crate::http::LoopbackClient;
use monitor_cluster::bus::membership::{Membership, MembershipChange};
use monitor_cluster::follow::WINDOW;
use monitor_cluster::follow::message::FollowMessage;
use monitor_cluster::follow::source::{FollowSources, SourceKey, SourceOutput};
use monitor_sys::clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

/// A connection that a command has opened, and the lines that are sent on it.
pub struct OpenedSession {
    /// Its name.
    pub key: SourceKey,
    /// The connection.
    pub client: LoopbackClient,
    /// The lines.
    pub lines: Vec<String>,
}

/// What a session has sent: lines, or nothing at its end.
pub type SessionLines = (SourceKey, Option<bytes::Bytes>);

/// The sessions.
pub struct SourceSessions {
    sources: FollowSources,
    running: BTreeMap<SourceKey, RunningSession>,
    sender: UnboundedSender<SessionLines>,
    /// Bounded by the room of the sessions.
    lines: UnboundedReceiver<SessionLines>,
}

/// Ends with the session.
struct RunningSession {
    task: AbortHandle,
    room: Arc<Semaphore>,
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl SourceSessions {
    /// None runs.
    pub fn new() -> Self {
        let (sender, lines) = unbounded_channel();
        Self { sources: FollowSources::default(), running: BTreeMap::new(), sender, lines }
    }

    /// Whether none runs.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Begins a session.
    ///
    /// # Errors
    /// Too many run, or its node follows one with this id already.
    pub fn open(&mut self, opened: OpenedSession) -> Result<(), String> {
        let key = opened.key.clone();
        self.sources.open(clock::boot(), key.clone())?;
        let room = Arc::new(Semaphore::new(WINDOW));
        let task = tokio::spawn(read(opened, Arc::clone(&room), self.sender.clone()));
        self.running.insert(key, RunningSession { task: task.abort_handle(), room });
        Ok(())
    }

    /// The next lines of a session.
    pub async fn next_lines(&mut self) -> SessionLines {
        match self.lines.recv().await {
            Some(lines) => lines,
            // This value has a sender.
            None => std::future::pending().await,
        }
    }

    /// Sends the lines of a session to the node that follows it.
    pub fn send(&mut self, (key, lines): SessionLines, on: BusNode<'_>) {
        let message = match lines {
            Some(lines) => self.sources.lines(&key, lines.to_vec()),
            None => {
                drop(self.running.remove(&key));
                self.sources.ended(&key, "the service closed the session".to_owned())
            }
        };
        // A session that was closed meanwhile has none.
        if let Some(message) = message {
            on.bus.send(&key.origin, message.to_bytes());
        }
    }

    /// Handles a message of a node that follows sessions.
    pub fn message(&mut self, from: &str, message: FollowMessage, on: BusNode<'_>) {
        let outputs = self.sources.message(clock::boot(), from, message);
        self.carry_out(outputs, on);
    }

    /// Handles a change among the members.
    pub fn members(&mut self, change: &MembershipChange, on: BusNode<'_>) {
        let (MembershipChange::Joined(node)
        | MembershipChange::Left(node)
        | MembershipChange::Removed(node)) = change
        else {
            return;
        };
        let outputs = self.sources.node_changed(&node.node);
        self.carry_out(outputs, on);
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, members: &Membership) -> Vec<SourceOutput> {
        self.sources.tick(clock::boot(), members)
    }

    /// Sends messages, and closes sessions.
    pub fn carry_out(&mut self, outputs: Vec<SourceOutput>, on: BusNode<'_>) {
        for output in outputs {
            match output {
                SourceOutput::Send(to, message) => on.bus.send(&to, message.to_bytes()),
                SourceOutput::Close(key) => drop(self.running.remove(&key)),
                SourceOutput::Room(key, bytes) => {
                    if let Some(running) = self.running.get(&key) {
                        running.room.add_permits(bytes);
                    }
                }
            }
        }
    }
}

/// Sends the lines of a session, and forwards what it gets while there is room.
async fn read(
    OpenedSession { key, client, lines }: OpenedSession,
    room: Arc<Semaphore>,
    sender: UnboundedSender<SessionLines>,
) {
    for line in lines {
        client.request(line).await;
    }
    while let Some(chunk) = client.next_lines().await {
        let bytes = u32::try_from(chunk.len().min(WINDOW)).unwrap_or(u32::MAX);
        let Ok(taken) = room.acquire_many(bytes).await else { break };
        taken.forget();
        if sender.send((key.clone(), Some(chunk))).is_err() {
            return;
        }
    }
    // Fails only if the thread ends.
    let _ = sender.send((key, None));
}
