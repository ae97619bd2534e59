//! Events of one series that wait for its reader, within a bound.
//!
//! A reader that is slow does not hold up the other calls of its connection: what finds no room
//! is dropped, and the next event tells how many are missing before it, as the daemon does. The
//! last event of a series always finds room.

use monitor_protocol::event::Event;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Most bytes of samples that wait.
const LIMIT: usize = 16 << 20;

/// The queue.
#[derive(Default)]
pub struct Queue {
    held: Mutex<Held>,
    filled: Notify,
}

#[derive(Default)]
struct Held {
    events: VecDeque<Event>,
    bytes: usize,
    dropped: u64,
    closed: bool,
}

impl Queue {
    /// Takes an event, or counts it as dropped.
    pub fn push(&self, mut event: Event) {
        let mut held = self.lock();
        if held.bytes >= LIMIT && !event.must_arrive() {
            held.dropped += 1 + event.dropped;
            return;
        }
        event.dropped += std::mem::take(&mut held.dropped);
        held.bytes += size(&event);
        held.events.push_back(event);
        self.filled.notify_one();
    }

    /// No more will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Waits for the next one; nothing, when it is closed and empty.
    pub async fn next(&self) -> Option<Event> {
        loop {
            {
                let mut held = self.lock();
                if let Some(event) = held.events.pop_front() {
                    held.bytes -= size(&event);
                    return Some(event);
                }
                if held.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // It is whole between two calls, whatever became of who held it.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(event: &Event) -> usize {
    size_of::<Event>() + event.sample.as_ref().map_or(0, |sample| sample.get().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::event::Reason;

    fn event(seq: u64, bytes: usize) -> Event {
        let text = format!("\"{}\"", "x".repeat(bytes));
        let sample = serde_json::value::RawValue::from_string(text).ok();
        Event { seq, sample, ..Event::default() }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_last_one_finds_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a loop");
        let queue = Queue::default();
        queue.push(event(0, LIMIT));
        queue.push(event(1, 0));
        queue.push(event(2, 0));
        queue.push(Event { ended: Some(Reason::Count), ..event(3, 0) });
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
