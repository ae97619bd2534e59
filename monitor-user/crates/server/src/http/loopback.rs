//! Loopback connections: requests of a browser become calls on one.
//!
//! In: an access level, and calls. Out: lines as a socket client gets them. The monitors of a
//! connection end with it, and share readings with all other monitors.

use super::daemon_request::{DaemonRequest, LoopbackRights};
use super::listen::AccessLevel;
use crate::{outbox::Outbox, policy::Peer};
use bytes::Bytes;
use monitor_format::exposition::Encoding;
use monitor_protocol::Conn;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::{sync::mpsc::Sender, sync::oneshot};

/// Bytes of samples that may wait in the outbox of a loopback connection.
pub const QUEUE_BYTES: usize = 4 << 20;

/// Requests the current metrics.
///
/// # Errors
///
/// When the client may not observe, nothing can be read, or the daemon is stopping.
pub async fn metrics(
    requests: &Sender<DaemonRequest>,
    access: AccessLevel,
    encoding: Encoding,
) -> Result<Vec<u8>, String> {
    let (reply, answer) = oneshot::channel();
    // Fails only if the daemon is shutting down.
    let _ = requests.send(DaemonRequest::Metrics { access, encoding, reply }).await;
    answer.await.map_err(|_| "the daemon is stopping".to_owned())?
}

/// A loopback connection; closed when dropped.
pub struct LoopbackClient {
    conn: Conn,
    outbox: Arc<Outbox>,
    requests: Sender<DaemonRequest>,
}

impl LoopbackClient {
    /// Connects, or returns why that is refused.
    pub async fn connect(
        requests: &Sender<DaemonRequest>,
        access: AccessLevel,
    ) -> Result<Self, String> {
        let connect = |outbox, reply| DaemonRequest::Connect { access, outbox, reply };
        Self::connect_by(requests, connect).await
    }

    /// Connects as a user of this machine that only observes, or returns why that is refused.
    pub async fn connect_user(
        requests: &Sender<DaemonRequest>,
        peer: Peer,
    ) -> Result<Self, String> {
        Self::connect_with_rights(requests, peer, LoopbackRights::Observe).await
    }

    /// Connects as a user of this machine, or returns why that is refused.
    pub async fn connect_with_rights(
        requests: &Sender<DaemonRequest>,
        peer: Peer,
        rights: LoopbackRights,
    ) -> Result<Self, String> {
        let connect = |outbox, reply| DaemonRequest::ConnectUser { peer, rights, outbox, reply };
        Self::connect_by(requests, connect).await
    }

    async fn connect_by(
        requests: &Sender<DaemonRequest>,
        connect: impl FnOnce(Arc<Outbox>, oneshot::Sender<Result<Conn, String>>) -> DaemonRequest,
    ) -> Result<Self, String> {
        let outbox = Arc::new(Outbox::new(QUEUE_BYTES));
        let (reply, answer) = oneshot::channel();
        let request = connect(Arc::clone(&outbox), reply);
        let requests = requests.clone();
        let stopping = || "the daemon is stopping".to_owned();
        // On a task of its own: a connection that is not waited for any longer is closed all the
        // same.
        let connected = tokio::spawn(async move {
            // Fails only if the daemon is shutting down.
            let _ = requests.send(request).await;
            let conn = answer.await.map_err(|_| stopping())??;
            Ok(Self { conn, outbox, requests })
        });
        connected.await.map_err(|_| stopping())?
    }

    /// Sends a call; its answer carries the tag.
    pub async fn call(&self, tag: u64, method: &str, params: &Value) {
        self.send(json!({"id": tag, "method": method, "params": params}).to_string()).await;
    }

    /// Sends a request of the language; its answer carries the number that it begins with.
    pub async fn request(&self, line: String) {
        self.send(line).await;
    }

    async fn send(&self, line: String) {
        self.outbox.reserve_reply();
        let _ =
            self.requests.send(DaemonRequest::Call { conn: self.conn, line: line.into() }).await;
    }

    /// Waits for lines, and returns all that are queued; `None` when the connection is closed.
    pub async fn next_lines(&self) -> Option<Bytes> {
        self.outbox.next().await
    }
}

impl Drop for LoopbackClient {
    fn drop(&mut self) {
        let (conn, requests) = (self.conn, self.requests.clone());
        drop(tokio::spawn(async move {
            let _ = requests.send(DaemonRequest::Disconnect { conn }).await;
        }));
    }
}
