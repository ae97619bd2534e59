//! What nodes send that a tool follows.
//!
//! In: the call `follow`, and the notices that come after its result. Out: notices one by one. A
//! reader that is too slow loses lines, and the next notice of the node has their number.

use super::connection::Connection;
use super::queue::NoticeQueue;
use monitor_protocol::cluster::{FollowNotice, Followed};
use std::sync::Arc;

/// The nodes of a set, and what they send; its connection ends it.
pub struct Following {
    /// Keeps the connection open.
    _connection: Connection,
    followed: Followed,
    queue: Arc<NoticeQueue>,
}

impl Following {
    /// What a call has started on a connection.
    pub(super) fn new(
        connection: Connection,
        (followed, queue): (Followed, Arc<NoticeQueue>),
    ) -> Self {
        Self { _connection: connection, followed, queue }
    }

    /// The result of the call.
    pub const fn followed(&self) -> &Followed {
        &self.followed
    }

    /// Waits for the next notice; `None` when the connection has closed. Cancel safe: no notice is
    /// lost if the future is dropped.
    pub async fn next(&self) -> Option<FollowNotice> {
        self.queue.next().await
    }
}
