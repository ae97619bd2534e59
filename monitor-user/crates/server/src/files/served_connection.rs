//! A connection from its first message to its end, over any stream.

use super::client::FilesClient;
use super::connection;
use super::connection_slots::{ConnectionSlot, SlotLimit};
use super::node::NodeFiles;
use super::tree::NodeTree;
use crate::user_shares::UserShare;
use monitor_ninep::limits::Limits;
use monitor_ninep::{Connection, Errno, NO_TAG, Reply};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// Serves a connection, and counts what was refused on it.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    (client, slot): (FilesClient, ConnectionSlot),
    (node, share): (Arc<NodeFiles>, Arc<UserShare>),
) {
    let (uid, pid) = (client.peer.uid, client.peer.pid);
    let tree = NodeTree::new(&node, client, Arc::clone(&share));
    let mut connection = Connection::with_quota(tree, Limits::default(), Arc::clone(slot.fids()));
    let served = connection::serve(stream, &mut connection, &share).await;
    for (kind, n) in connection.take_refused() {
        node.count_refused(&format!("9P {kind}"), n);
    }
    if let Err(why) = served {
        node.count_refused("9P connection closed", 1);
        tracing::info!(uid, pid, "a connection to the files is closed: {why}");
    }
    // Its fids are given back first.
    drop(connection);
    drop(slot);
}

/// Logs and counts that a limit of connections is reached; the bytes of the refusal.
pub fn refused(node: &NodeFiles, limit: SlotLimit, whose: &str) -> Vec<u8> {
    let SlotLimit { name, most } = limit;
    tracing::warn!("a connection to the files of {whose} is refused: {most} {name} are open");
    node.count_refused(&format!("9P {name}"), 1);
    let mut bytes = Vec::new();
    // It is the reply to Tversion, the only message that a client sends unasked.
    Reply::Error { text: Errno::TooManyUsers.text() }.put(NO_TAG, &mut bytes);
    bytes
}
