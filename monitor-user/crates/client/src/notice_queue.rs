//! The bounded queue of notices of nodes that are followed.
//!
//! A reader that is too slow does not block the other calls of its connection: lines that do not
//! fit are dropped, and the next notice of their node has their number. States are never dropped.

use super::lock::lock;
use monitor_protocol::cluster::FollowNotice;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use tokio::sync::Notify;

/// Maximum number of queued bytes of lines.
const LIMIT: usize = 16 << 20;

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

    /// Waits for the next notice; `None` when it is closed and empty.
    pub async fn next(&self) -> Option<FollowNotice> {
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
