//! The signs of life of this node: published as they come, and again when there is a connection
//! again, so that its servers know at once over which one the node lives now.
//!
//! In: bytes of the latest sign. Out: messages with the connection in a header.

use super::disconnects::ConnectionId;
use super::subject;
use async_nats::Client;
use monitor_cluster::bus::Topic;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// Publishes the signs of a node until the bus is gone.
pub async fn publish_all(
    client: Client,
    node: String,
    mut signs: watch::Receiver<Vec<u8>>,
    reconnected: Arc<Notify>,
) {
    let subject = subject::topic(Topic::Heartbeat, &node);
    loop {
        tokio::select! {
            changed = signs.changed() => if changed.is_err() { return },
            () = reconnected.notified() => {}
        }
        let sign = signs.borrow_and_update().clone();
        if sign.is_empty() {
            // It has not joined yet.
            continue;
        }
        let headers = ConnectionId::of_client(client.server_info()).header();
        // Only a connection that is closed for good refuses it.
        if let Err(error) = client.publish_with_headers(subject.clone(), headers, sign.into()).await
        {
            tracing::debug!("sign of life: {error}");
        }
    }
}
