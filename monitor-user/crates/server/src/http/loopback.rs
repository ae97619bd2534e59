//! A loopback connection: requests of a browser become calls on it.
//!
//! In: an access level, and calls. Out: lines as a socket client gets them. Its monitors end with
//! it, and share readings with all other monitors.

use super::{AccessLevel, DaemonRequest, ListenerState};
use crate::outbox::Outbox;
use bytes::Bytes;
use monitor_protocol::Conn;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// Bytes of samples that may wait in its outbox.
const QUEUE_BYTES: usize = 4 << 20;

/// A loopback connection; closed when dropped.
pub struct LoopbackClient {
    conn: Conn,
    outbox: Arc<Outbox>,
    requests: Sender<DaemonRequest>,
}

impl LoopbackClient {
    /// Connects, or returns why that is refused.
    pub async fn connect(shared: &ListenerState, access: AccessLevel) -> Result<Self, String> {
        let outbox = Arc::new(Outbox::new(QUEUE_BYTES));
        let (reply, answer) = oneshot::channel();
        let request = DaemonRequest::Connect { access, outbox: Arc::clone(&outbox), reply };
        // Fails only if the daemon is shutting down.
        let _ = shared.requests.send(request).await;
        let conn = answer.await.map_err(|_| "the daemon is stopping".to_owned())??;
        Ok(Self { conn, outbox, requests: shared.requests.clone() })
    }

    /// Sends a call; its answer carries the tag.
    pub async fn call(&self, tag: u64, method: &str, params: &Value) {
        let line = json!({"id": tag, "method": method, "params": params}).to_string();
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
