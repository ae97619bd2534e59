//! What waits to be sent on one connection, within a bound.
//!
//! A reply and the last event of a series always find room: there are no more of them than was
//! asked for. A sample that finds none is dropped and counted; the next one of its monitor
//! tells how many are missing before it.

use bytes::{BufMut, Bytes, BytesMut};
use monitor_protocol::event::Event;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Most bytes that are handed to the socket at once.
const CHUNK: usize = 64 << 10;

/// The queue of a connection.
pub struct Outbox {
    queue: Mutex<Queue>,
    filled: Notify,
    emptied: Notify,
    limit: usize,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Bytes>,
    bytes: usize,
    dropped: HashMap<String, u64>,
    /// All that were ever dropped.
    lost: u64,
    /// Calls that have no reply yet.
    owed: usize,
    /// Nobody will call any more: closed, once nothing is owed.
    leaving: bool,
    closed: bool,
}

impl Outbox {
    /// An empty one that holds so many bytes of samples.
    pub fn new(limit: usize) -> Self {
        Self { queue: Mutex::default(), filled: Notify::new(), emptied: Notify::new(), limit }
    }

    /// A call came, which will have a reply.
    pub fn owe(&self) {
        self.lock().owed += 1;
    }

    /// It was one that has none.
    pub fn forgive(&self) {
        self.paid(&mut self.lock());
    }

    /// Queues a reply.
    pub fn reply(&self, line: Vec<u8>) {
        let mut queue = self.lock();
        self.put(&mut queue, line);
        self.paid(&mut queue);
    }

    fn paid(&self, queue: &mut Queue) {
        queue.owed = queue.owed.saturating_sub(1);
        if queue.leaving && queue.owed == 0 {
            queue.closed = true;
            self.filled.notify_one();
        }
    }

    /// Nobody will call any more: closes as soon as every call has its reply.
    pub fn leave(&self) {
        let mut queue = self.lock();
        queue.leaving = true;
        queue.owed += 1;
        self.paid(&mut queue);
    }

    /// Queues an event, or counts it as dropped.
    pub fn event(&self, mut event: Event) {
        let mut queue = self.lock();
        if queue.bytes >= self.limit && !event.must_arrive() {
            queue.lost += 1;
            *queue.dropped.entry(event.id).or_default() += 1 + event.dropped;
            return;
        }
        event.dropped += queue.dropped.remove(&event.id).unwrap_or(0);
        self.put(&mut queue, event.to_line());
    }

    /// Queues a line that nobody called for, if there is room; whether there was.
    pub fn tell(&self, line: Vec<u8>) -> bool {
        let mut queue = self.lock();
        let has_room = queue.bytes < self.limit;
        if has_room {
            self.put(&mut queue, line);
        } else {
            queue.lost += 1;
        }
        has_room
    }

    fn put(&self, queue: &mut Queue, line: Vec<u8>) {
        if !queue.closed {
            queue.bytes += line.len();
            queue.lines.push_back(line.into());
            self.filled.notify_one();
        }
    }

    /// Lets what is queued go out, and nothing after it.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
        self.emptied.notify_one();
    }

    /// Waits for lines; gives as many as go out at once, or nothing when it is closed and empty.
    pub async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut queue = self.lock();
                if let Some(chunk) = queue.take() {
                    self.emptied.notify_one();
                    return Some(chunk);
                }
                if queue.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Waits until somebody who does not read his replies has read some.
    pub async fn room(&self) {
        loop {
            {
                let queue = self.lock();
                if queue.bytes < self.limit || queue.closed {
                    return;
                }
            }
            self.emptied.notified().await;
        }
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Samples that were ever dropped.
    pub fn dropped(&self) -> u64 {
        self.lock().lost
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A queue is whole between two calls, whatever became of who held it.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn take(&mut self) -> Option<Bytes> {
        let first = self.lines.pop_front()?;
        self.bytes -= first.len();
        if self.lines.is_empty() || first.len() >= CHUNK {
            return Some(first);
        }
        let mut chunk = BytesMut::with_capacity(CHUNK);
        chunk.put(first);
        while let Some(line) = self.lines.pop_front_if(|it| chunk.len() + it.len() <= CHUNK) {
            self.bytes -= line.len();
            chunk.put(line);
        }
        Some(chunk.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::event::Reason;

    fn event(id: &str, seq: u64) -> Event {
        Event { id: id.into(), seq, ..Event::default() }
    }

    async fn sent(outbox: &Outbox) -> Vec<(String, u64, u64)> {
        let chunk = outbox.next().await.expect("something waits");
        let lines = chunk.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let read = |line: &[u8]| {
            let all: serde_json::Value = serde_json::from_slice(line).expect("JSON");
            let event: Event = serde_json::from_value(all["params"].clone()).expect("an event");
            (event.id, event.seq, event.dropped)
        };
        lines.map(read).collect()
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a loop").block_on(future)
    }

    #[test]
    fn what_finds_no_room_is_counted_and_told_with_the_next() {
        wait(async {
            let outbox = Outbox::new(1);
            (0..5).for_each(|seq| outbox.event(event("a", seq)));
            outbox.event(event("b", 0));
            assert_eq!(sent(&outbox).await, [("a".into(), 0, 0)]);
            outbox.event(event("b", 1));
            assert_eq!(sent(&outbox).await, [("b".into(), 1, 1)]);
            outbox.event(event("a", 5));
            assert_eq!(sent(&outbox).await, [("a".into(), 5, 4)]);
        });
    }

    #[test]
    fn the_last_of_a_series_always_finds_room() {
        wait(async {
            let outbox = Outbox::new(1);
            outbox.event(event("a", 0));
            outbox.event(event("a", 1));
            outbox.event(Event { ended: Some(Reason::Count), ..event("a", 2) });
            assert_eq!(sent(&outbox).await, [("a".into(), 0, 0), ("a".into(), 2, 1)]);
        });
    }

    #[test]
    fn whoever_stops_calling_gets_what_he_is_owed() {
        wait(async {
            let outbox = Outbox::new(1);
            outbox.owe();
            outbox.owe();
            outbox.leave();
            outbox.reply(b"x\n".to_vec());
            assert_eq!(outbox.next().await.as_deref(), Some(&b"x\n"[..]));
            outbox.forgive();
            assert_eq!(outbox.next().await, None);
        });
    }

    #[test]
    fn a_closed_one_sends_what_it_has_and_ends() {
        wait(async {
            let outbox = Outbox::new(1);
            outbox.reply(b"x\n".to_vec());
            outbox.close();
            outbox.reply(b"y\n".to_vec());
            assert_eq!(outbox.next().await.as_deref(), Some(&b"x\n"[..]));
            assert_eq!(outbox.next().await, None);
        });
    }
}
