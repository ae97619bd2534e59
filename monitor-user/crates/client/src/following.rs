//! What nodes send that a tool follows.
//!
//! In: the call `follow`, and the notices that come after its result. Out: notices one by one. A
//! reader that is too slow loses lines, and the next notice of the node has their number.

use super::connection::Connection;
use super::lock::lock;
use monitor_protocol::cluster::{FollowNotice, Followed};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Maximum number of queued bytes of lines.
const LIMIT: usize = 16 << 20;

/// The nodes of a set, and what they send; its connection ends it.
pub struct Following {
    /// Keeps the connection open.
    _connection: Connection,
    followed: Followed,
    queue: Arc<NoticeQueue>,
}

impl Following {
    /// What a call has started.
    pub(super) const fn new(
        connection: Connection,
        followed: Followed,
        queue: Arc<NoticeQueue>,
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

/// A queue of notices.
#[derive(Default)]
pub struct NoticeQueue {
    state: Mutex<QueueState>,
    filled: Notify,
}

#[derive(Default)]
struct QueueState {
    notices: VecDeque<FollowNotice>,
    bytes: usize,
    lost: HashMap<String, u64>,
    closed: bool,
}

impl NoticeQueue {
    /// Adds a notice; a line that does not fit is counted as lost.
    pub fn push(&self, mut notice: FollowNotice) {
        let mut state = lock(&self.state);
        if state.bytes >= LIMIT && notice.line.is_some() {
            *state.lost.entry(notice.node).or_default() += 1 + notice.lost;
            return;
        }
        notice.lost += state.lost.remove(&notice.node).unwrap_or_default();
        state.bytes += size(&notice);
        state.notices.push_back(notice);
        self.filled.notify_one();
    }

    /// Closes the queue.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.filled.notify_one();
    }

    async fn next(&self) -> Option<FollowNotice> {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some(notice) = state.notices.pop_front() {
                    state.bytes -= size(&notice);
                    return Some(notice);
                }
                if state.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }
}

fn size(notice: &FollowNotice) -> usize {
    size_of::<FollowNotice>() + notice.line.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::cluster::FollowedState;

    fn line(node: &str, seq: u64, bytes: usize) -> FollowNotice {
        let line = Some("x".repeat(bytes));
        FollowNotice { node: node.into(), seq: Some(seq), line, ..FollowNotice::default() }
    }

    #[test]
    fn lines_that_do_not_fit_are_counted_for_their_node() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a loop");
        let queue = NoticeQueue::default();
        queue.push(line("a", 0, LIMIT));
        queue.push(line("b", 0, 1));
        queue.push(FollowNotice { lost: 2, ..line("a", 3, 1) });
        let state = Some(FollowedState::Dead);
        queue.push(FollowNotice { node: "a".into(), state, ..FollowNotice::default() });
        queue.close();
        let got = runtime.block_on(async {
            let mut got = Vec::new();
            while let Some(notice) = queue.next().await {
                got.push((notice.node, notice.seq, notice.lost));
            }
            got
        });
        assert_eq!(got, [("a".into(), Some(0), 0), ("a".into(), None, 3)]);
    }
}
