//! One line inside the daemon: a connection that is opened with its only line, in one step.
//!
//! In: a user, its rights, a line. Out: what the daemon sends, or why the line was not handled. A
//! line is one message to the daemon loop; with a connection, it would be two, one after the other.

use super::daemon_request::{DaemonRequest, LineRefusal, LineRequest, LoopbackRights};
use super::loopback::QUEUE_BYTES;
use crate::{outbox::Outbox, policy::Peer};
use bytes::Bytes;
use monitor_model::Ns;
use monitor_protocol::Conn;
use std::sync::Arc;
use tokio::sync::{mpsc::Sender, oneshot};

/// Why there are no lines.
#[derive(Debug, PartialEq, Eq)]
pub enum NoLines {
    /// The line was not handled.
    NotHandled(LineRefusal),
    /// It was handled, and the connection has ended: the daemon is stopping.
    Ended,
}

/// A connection for one line; closed when dropped.
pub struct LoopbackLine {
    connected: Option<oneshot::Receiver<Result<Conn, LineRefusal>>>,
    outbox: Arc<Outbox>,
    requests: Sender<DaemonRequest>,
}

impl LoopbackLine {
    /// Sends a line of a user, to be handled before a time.
    pub async fn send(
        requests: &Sender<DaemonRequest>,
        (peer, rights): (Peer, LoopbackRights),
        (line, until): (Bytes, Ns),
    ) -> Self {
        let outbox = Arc::new(Outbox::new(QUEUE_BYTES));
        outbox.reserve_reply();
        let (reply, connected) = oneshot::channel();
        let request = LineRequest { peer, rights, line, until, outbox: Arc::clone(&outbox), reply };
        // Fails only if the daemon is stopping: then nothing is received.
        let _ = requests.send(DaemonRequest::Line(Box::new(request))).await;
        Self { connected: Some(connected), outbox, requests: requests.clone() }
    }

    /// Waits for lines, and returns all that are queued.
    ///
    /// # Errors
    /// The line was refused, or the connection has ended.
    pub async fn next_lines(&mut self) -> Result<Bytes, NoLines> {
        if let Some(lines) = self.outbox.next().await {
            return Ok(lines);
        }
        let Some(connected) = self.connected.take() else { return Err(NoLines::Ended) };
        Err(match connected.await {
            Ok(Ok(_)) => NoLines::Ended,
            Ok(Err(refusal)) => NoLines::NotHandled(refusal),
            // It was not taken.
            Err(_) => {
                NoLines::NotHandled(LineRefusal::Refused("the daemon is stopping".to_owned()))
            }
        })
    }
}

impl Drop for LoopbackLine {
    fn drop(&mut self) {
        let Some(connected) = self.connected.take() else { return };
        let requests = self.requests.clone();
        drop(tokio::spawn(async move {
            if let Ok(Ok(conn)) = connected.await {
                let _ = requests.send(DaemonRequest::Disconnect { conn }).await;
            }
        }));
    }
}
