//! The send queue of a connection, with a limit.
//!
//! Replies and the last event of a monitor are always queued: their number is limited by the calls.
//! A sample that finds no room is dropped and counted; the next one of its monitor carries the
//! number of dropped ones.

use super::{lock::lock, user_shares::UserShare};
use bytes::{BufMut, Bytes, BytesMut};
use monitor_model::Ns;
use monitor_protocol::event::Event;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::Notify;

/// Most bytes that are written to the socket at once.
const CHUNK: usize = 64 << 10;

/// What an outbox holds: lines of a socket, or messages to a session inside the daemon.
pub trait OutboxItem {
    /// An event as an item.
    fn from_event(event: Event) -> Self;

    /// Its memory in bytes.
    fn size(&self) -> usize;
}

impl OutboxItem for Bytes {
    fn from_event(event: Event) -> Self {
        event.to_line().into()
    }

    fn size(&self) -> usize {
        self.len()
    }
}

/// The send queue of a connection.
pub struct Outbox<T: OutboxItem = Bytes> {
    queue: Mutex<Queue<T>>,
    filled: Notify,
    emptied: Notify,
    limit: usize,
    /// The user that it counts for, once its connection is accepted.
    share: OnceLock<Arc<UserShare>>,
}

struct Queue<T> {
    items: VecDeque<T>,
    bytes: usize,
    dropped: HashMap<String, u64>,
    /// Samples dropped since the start.
    dropped_total: u64,
    /// Calls without a reply.
    pending_replies: usize,
    /// No further calls: closed when no reply is pending.
    input_ended: bool,
    closed: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            items: VecDeque::new(),
            bytes: 0,
            dropped: HashMap::new(),
            dropped_total: 0,
            pending_replies: 0,
            input_ended: false,
            closed: false,
        }
    }
}

impl<T: OutboxItem> Outbox<T> {
    /// An empty queue for `limit` bytes of samples.
    pub fn new(limit: usize) -> Self {
        let (filled, emptied) = (Notify::new(), Notify::new());
        Self { queue: Mutex::default(), filled, emptied, limit, share: OnceLock::new() }
    }

    /// Counts what is queued from now on for a user.
    pub fn count_for(&self, share: Arc<UserShare>) {
        let queue = lock(&self.queue);
        if let Ok(()) = self.share.set(Arc::clone(&share)) {
            share.add(queue.bytes);
        }
    }

    /// Charges its user the processor time of a line.
    pub fn charge(&self, cost: Ns) {
        if let Some(share) = self.share.get() {
            share.charge(cost);
        }
    }

    /// Whether there is no room for a further sample: of the connection, or of its user.
    fn is_full(&self, queue: &Queue<T>) -> bool {
        queue.bytes >= self.limit || self.share.get().is_some_and(|it| it.is_over())
    }

    /// Notes a call that will have a reply.
    pub fn reserve_reply(&self) {
        lock(&self.queue).pending_replies += 1;
    }

    /// Notes that a call will have no reply.
    pub fn cancel_reply(&self) {
        self.reply_sent(&mut lock(&self.queue));
    }

    /// Queues a reply.
    pub fn reply(&self, reply: impl Into<T>) {
        let mut queue = lock(&self.queue);
        self.put(&mut queue, reply.into());
        self.reply_sent(&mut queue);
    }

    fn reply_sent(&self, queue: &mut Queue<T>) {
        queue.pending_replies = queue.pending_replies.saturating_sub(1);
        if queue.input_ended && queue.pending_replies == 0 {
            queue.closed = true;
            self.filled.notify_one();
        }
    }

    /// Notes that there are no further calls: the queue closes when every call has its reply.
    pub fn finish_input(&self) {
        let mut queue = lock(&self.queue);
        queue.input_ended = true;
        queue.pending_replies += 1;
        self.reply_sent(&mut queue);
    }

    /// Queues an event, or counts it as dropped if there is no room.
    pub fn event(&self, mut event: Event) {
        let mut queue = lock(&self.queue);
        if self.is_full(&queue) && !event.must_arrive() {
            queue.dropped_total += 1;
            *queue.dropped.entry(event.id).or_default() += 1 + event.dropped;
            return;
        }
        event.dropped += queue.dropped.remove(&event.id).unwrap_or(0);
        self.put(&mut queue, T::from_event(event));
    }

    fn put(&self, queue: &mut Queue<T>, item: T) {
        if !queue.closed {
            queue.bytes += item.size();
            if let Some(share) = self.share.get() {
                share.add(item.size());
            }
            queue.items.push_back(item);
            self.filled.notify_one();
        }
    }

    /// Closes the queue: what is queued is still sent.
    pub fn close(&self) {
        lock(&self.queue).closed = true;
        self.filled.notify_one();
        self.emptied.notify_one();
    }

    /// Takes all items.
    pub fn take_all(&self) -> VecDeque<T> {
        let mut queue = lock(&self.queue);
        let bytes = std::mem::take(&mut queue.bytes);
        if let Some(share) = self.share.get() {
            share.remove(bytes);
        }
        std::mem::take(&mut queue.items)
    }

    /// Bytes in the queue.
    pub fn bytes(&self) -> usize {
        lock(&self.queue).bytes
    }

    /// Samples dropped since the start.
    pub fn dropped(&self) -> u64 {
        lock(&self.queue).dropped_total
    }
}

impl Outbox {
    /// Queues a line that is not a reply, and returns whether there was room.
    pub fn try_push(&self, line: Vec<u8>) -> bool {
        let mut queue = lock(&self.queue);
        let has_room = !self.is_full(&queue);
        if has_room {
            self.put(&mut queue, line.into());
        } else {
            queue.dropped_total += 1;
        }
        has_room
    }

    /// Queues a line that is not a reply, and that must arrive: their number is limited.
    pub fn notify(&self, line: Vec<u8>) {
        self.put(&mut lock(&self.queue), line.into());
    }

    /// Waits for lines, and returns as many as are written at once; `None` when the queue is
    /// closed and empty.
    pub async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut queue = lock(&self.queue);
                if let Some(chunk) = queue.take() {
                    self.emptied.notify_one();
                    if let Some(share) = self.share.get() {
                        share.remove(chunk.len());
                    }
                    return Some(chunk);
                }
                if queue.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Waits until there is room, so that a client that does not read sends no further calls.
    pub async fn wait_for_room(&self) {
        loop {
            {
                let queue = lock(&self.queue);
                if queue.bytes < self.limit || queue.closed {
                    return;
                }
            }
            self.emptied.notified().await;
        }
    }
}

impl<T: OutboxItem> Drop for Outbox<T> {
    fn drop(&mut self) {
        if let Some(share) = self.share.get() {
            share.remove(lock(&self.queue).bytes);
        }
    }
}

impl Queue<Bytes> {
    fn take(&mut self) -> Option<Bytes> {
        let first = self.items.pop_front()?;
        self.bytes -= first.len();
        if self.items.is_empty() || first.len() >= CHUNK {
            return Some(first);
        }
        let mut chunk = BytesMut::with_capacity(CHUNK);
        chunk.put(first);
        while let Some(line) = self.items.pop_front_if(|it| chunk.len() + it.len() <= CHUNK) {
            self.bytes -= line.len();
            chunk.put(line);
        }
        Some(chunk.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_protocol::event::EndReason;

    fn event(id: &str, seq: u64) -> Event {
        Event { id: id.into(), seq, ..Event::default() }
    }

    async fn sent(outbox: &Outbox) -> Vec<(String, u64, u64)> {
        let chunk = outbox.next().await.expect("a queued line");
        let lines = chunk.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let read = |line: &[u8]| {
            let all: serde_json::Value = serde_json::from_slice(line).expect("JSON");
            let event: Event = serde_json::from_value(all["params"].clone()).expect("an event");
            (event.id, event.seq, event.dropped)
        };
        lines.map(read).collect()
    }

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn dropped_samples_are_counted_in_the_next_event() {
        wait(async {
            let outbox = Outbox::<Bytes>::new(1);
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
    fn the_last_event_of_a_monitor_is_always_queued() {
        wait(async {
            let outbox = Outbox::<Bytes>::new(1);
            outbox.event(event("a", 0));
            outbox.event(event("a", 1));
            outbox.event(Event { ended: Some(EndReason::Count), ..event("a", 2) });
            assert_eq!(sent(&outbox).await, [("a".into(), 0, 0), ("a".into(), 2, 1)]);
        });
    }

    #[test]
    fn pending_replies_are_sent_after_the_last_call() {
        wait(async {
            let outbox = Outbox::<Bytes>::new(1);
            outbox.reserve_reply();
            outbox.reserve_reply();
            outbox.finish_input();
            outbox.reply(b"x\n".to_vec());
            assert_eq!(outbox.next().await.as_deref(), Some(&b"x\n"[..]));
            outbox.cancel_reply();
            assert_eq!(outbox.next().await, None);
        });
    }

    #[test]
    fn a_closed_queue_sends_what_it_has_and_ends() {
        wait(async {
            let outbox = Outbox::<Bytes>::new(1);
            outbox.reply(b"x\n".to_vec());
            outbox.close();
            outbox.reply(b"y\n".to_vec());
            assert_eq!(outbox.next().await.as_deref(), Some(&b"x\n"[..]));
            assert_eq!(outbox.next().await, None);
        });
    }
}
