//! The bounded event queue of one series.
//!
//! A slow reader does not block the other calls of its connection: events that do not fit are
//! dropped, and the next event has their number, as in the daemon. The last event of a series is
//! never dropped.

use super::lock::lock;
use monitor_protocol::event::Event;
use std::{collections::VecDeque, sync::Mutex};
use tokio::sync::Notify;

/// Maximum number of queued bytes.
const LIMIT: usize = 16 << 20;

/// A queue of events.
#[derive(Default)]
pub struct EventQueue {
    state: Mutex<QueueState>,
    filled: Notify,
}

#[derive(Default)]
struct QueueState {
    events: VecDeque<Event>,
    bytes: usize,
    dropped: u64,
    closed: bool,
}

impl EventQueue {
    /// Adds an event, or counts it as dropped.
    pub fn push(&self, mut event: Event) {
        let mut state = lock(&self.state);
        if state.bytes >= LIMIT && !event.must_arrive() {
            state.dropped += 1 + event.dropped;
            return;
        }
        event.dropped += std::mem::take(&mut state.dropped);
        state.bytes += size(&event);
        state.events.push_back(event);
        self.filled.notify_one();
    }

    /// Closes the queue.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.filled.notify_one();
    }

    /// Waits for the next event; `None` when it is closed and empty.
    pub async fn next(&self) -> Option<Event> {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some(event) = state.events.pop_front() {
                    state.bytes -= size(&event);
                    return Some(event);
                }
                if state.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }
}

fn size(event: &Event) -> usize {
    size_of::<Event>() + event.sample.as_ref().map_or(0, |sample| sample.get().len())
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
