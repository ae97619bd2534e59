//! The bounded queue of what a connection receives for one reader: events of a series, or notices
//! of nodes that are followed.
//!
//! A slow reader does not block the other calls of its connection: items that do not fit are
//! dropped, and the next item of their source has their number, as in the daemon. Those that end
//! or change something are never dropped.

use super::lock::lock;
use monitor_protocol::cluster::FollowNotice;
use monitor_protocol::event::Event;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use tokio::sync::Notify;

/// Maximum number of queued bytes of items that may be dropped.
const LIMIT: usize = 16 << 20;

/// What a queue holds.
pub trait Queued {
    /// Whose lost items are counted together.
    fn source(&self) -> &str;

    /// Whether it is never dropped.
    fn must_arrive(&self) -> bool;

    /// The bytes that it takes.
    fn bytes(&self) -> usize;

    /// How many items of its source were lost before it.
    fn lost(&mut self) -> &mut u64;
}

impl Queued for Event {
    /// A series is one source.
    fn source(&self) -> &str {
        ""
    }

    fn must_arrive(&self) -> bool {
        Self::must_arrive(self)
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.sample.as_ref().map_or(0, |sample| sample.get().len())
    }

    fn lost(&mut self) -> &mut u64 {
        &mut self.dropped
    }
}

impl Queued for FollowNotice {
    fn source(&self) -> &str {
        &self.node
    }

    /// States are, lines are not.
    fn must_arrive(&self) -> bool {
        self.line.is_none()
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.line.as_ref().map_or(0, String::len)
    }

    fn lost(&mut self) -> &mut u64 {
        &mut self.lost
    }
}

/// A queue of events of a series.
pub type EventQueue = BoundedQueue<Event>;
/// A queue of notices.
pub type NoticeQueue = BoundedQueue<FollowNotice>;

/// A queue.
#[derive(Default)]
pub struct BoundedQueue<T> {
    state: Mutex<QueueState<T>>,
    filled: Notify,
}

#[derive(Default)]
struct QueueState<T> {
    items: VecDeque<T>,
    bytes: usize,
    /// Lost items by their source.
    lost: HashMap<String, u64>,
    closed: bool,
}

impl<T: Queued> BoundedQueue<T> {
    /// Adds an item, or counts it as lost.
    pub fn push(&self, mut item: T) {
        let mut state = lock(&self.state);
        if state.bytes >= LIMIT && !item.must_arrive() {
            let lost = 1 + *item.lost();
            *state.lost.entry(item.source().to_owned()).or_default() += lost;
            return;
        }
        let lost = state.lost.remove(item.source()).unwrap_or_default();
        *item.lost() += lost;
        state.bytes += item.bytes();
        state.items.push_back(item);
        self.filled.notify_one();
    }

    /// Closes the queue.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.filled.notify_one();
    }

    /// Waits for the next item; `None` when it is closed and empty.
    pub async fn next(&self) -> Option<T> {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some(item) = state.items.pop_front() {
                    state.bytes -= item.bytes();
                    return Some(item);
                }
                if state.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::cluster::FollowedState;
    use monitor_protocol::event::EndReason;

    fn event(seq: u64, bytes: usize) -> Event {
        let text = format!("\"{}\"", "x".repeat(bytes));
        let sample = serde_json::value::RawValue::from_string(text).ok();
        Event { seq, sample, ..Event::default() }
    }

    #[test]
    fn events_that_do_not_fit_are_counted_and_the_last_one_fits() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a loop");
        let queue = EventQueue::default();
        queue.push(event(0, LIMIT));
        queue.push(event(1, 0));
        queue.push(event(2, 0));
        queue.push(Event { ended: Some(EndReason::Count), ..event(3, 0) });
        queue.close();
        let got = runtime.block_on(async {
            let mut got = Vec::new();
            while let Some(event) = queue.next().await {
                got.push((event.seq, event.dropped));
            }
            got
        });
        assert_eq!(got, [(0, 0), (3, 2)]);
    }

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
