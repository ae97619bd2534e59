//! A connection to the service from within: what a browser asks for becomes calls on it.
//!
//! In: what its owner may see, and calls. Out: lines, as any client of the socket gets them. Its
//! monitors end with it, and share their readings with those of everybody else.

use super::{Ask, Shared, Sight};
use crate::outbox::Outbox;
use bytes::Bytes;
use monitor_protocol::Conn;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// Bytes of samples that may wait for a guest.
const WAITING: usize = 4 << 20;

/// A guest; leaves when dropped.
pub struct Guest {
    conn: Conn,
    outbox: Arc<Outbox>,
    asks: Sender<Ask>,
}

impl Guest {
    /// Joins, or says why that is refused.
    pub async fn join(shared: &Shared, sight: Sight) -> Result<Self, String> {
        let outbox = Arc::new(Outbox::new(WAITING));
        let (reply, answer) = oneshot::channel();
        let ask = Ask::Join { sight, outbox: Arc::clone(&outbox), reply };
        // The loop ends with the service, and this with it.
        let _ = shared.asks.send(ask).await;
        let conn = answer.await.map_err(|_| "the service ends".to_owned())??;
        Ok(Self { conn, outbox, asks: shared.asks.clone() })
    }

    /// Calls; the answer carries the tag.
    pub async fn call(&self, tag: u64, method: &str, params: &Value) {
        let line = json!({"id": tag, "method": method, "params": params}).to_string();
        self.outbox.owe();
        let _ = self.asks.send(Ask::Say { conn: self.conn, line: line.into() }).await;
    }

    /// Waits for lines: whole ones, as many as there are.
    pub async fn hear(&self) -> Option<Bytes> {
        self.outbox.next().await
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let (conn, asks) = (self.conn, self.asks.clone());
        drop(tokio::spawn(async move {
            let _ = asks.send(Ask::Leave { conn }).await;
        }));
    }
}
