//! The same log for tasks that must not wait: each call registers the task that it would block.
//!
//! A reader of this kind reads bytes at a position, and may read them again while they are kept. It
//! has had them when it has read beyond them.

use super::{OVERHEAD, OutputLog, OutputReader, OutputSource};
use crate::waker_list::WaitPlace;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What is at a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputAt {
    /// These bytes, and perhaps more.
    Bytes(Vec<u8>),
    /// They were dropped.
    Dropped,
    /// The end.
    End,
}

impl OutputLog {
    /// Adds bytes when there is room for them.
    pub fn poll_append(
        &self,
        (source, bytes): (&OutputSource, &[u8]),
        place: &WaitPlace,
        context: &Context<'_>,
    ) -> Poll<()> {
        // Before the look: a change after it wakes.
        place.wait(context);
        let mut kept = self.lock();
        while kept.bytes + bytes.len() + OVERHEAD > self.limit && !kept.parts.is_empty() {
            if kept.is_awaited() && !kept.is_closed {
                return Poll::Pending;
            }
            kept.drop_oldest();
        }
        kept.push(source, bytes);
        drop(kept);
        place.leave();
        self.notify();
        Poll::Ready(())
    }

    /// A place for a task that adds.
    pub fn wait_place(&self) -> WaitPlace {
        self.tasks.add_place()
    }

    /// Number of bytes that were added.
    pub fn end(&self) -> u64 {
        self.lock().end
    }

    /// Begins to read at the oldest byte that is kept.
    pub fn reader_of_kept(self: &Arc<Self>) -> OutputReader {
        let mut reader = self.reader_from(0);
        reader.from = reader.lost;
        reader
    }
}

impl OutputReader {
    /// Where it began: the number of bytes before it.
    pub const fn begin(&self) -> u64 {
        self.from
    }

    /// At most this number of bytes, from a position behind where the reader began.
    pub fn poll_at(&self, at: u64, most: usize, context: &Context<'_>) -> Poll<OutputAt> {
        let super::OutputEnd { log, id } = &self.end;
        let position = self.from.saturating_add(at);
        let mut kept = log.lock();
        if position >= kept.end {
            if kept.is_closed && kept.waiting == 0 || !kept.readers.contains_key(id) {
                return Poll::Ready(OutputAt::End);
            }
            // With the lock: the thread that adds has it later, and wakes.
            self.place.wait(context);
            return Poll::Pending;
        }
        let first = kept.parts.partition_point(|it| it.end() <= position);
        if kept.parts.get(first).is_none_or(|it| it.at > position) {
            return Poll::Ready(OutputAt::Dropped);
        }
        let mut bytes = Vec::new();
        let mut whole = first;
        for part in kept.parts.range(first..) {
            let skipped = usize::try_from(position.saturating_sub(part.at)).unwrap_or(usize::MAX);
            let rest = &part.bytes[skipped.min(part.bytes.len())..];
            let taken = rest.len().min(most - bytes.len());
            bytes.extend_from_slice(&rest[..taken]);
            if taken < rest.len() {
                break;
            }
            whole += 1;
        }
        let next = kept.dropped.0 + u64::try_from(whole).unwrap_or(u64::MAX);
        if let Some(had) = kept.readers.get_mut(id) {
            *had = next.max(*had);
        }
        drop(kept);
        log.notify();
        Poll::Ready(OutputAt::Bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::WhenFull;
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn source() -> OutputSource {
        OutputSource { group: "session".into(), rank: Some(0), is_error: false }
    }

    fn append(log: &OutputLog, text: &str) -> Poll<()> {
        log.poll_append(
            (&source(), text.as_bytes()),
            &log.wait_place(),
            &Context::from_waker(Waker::noop()),
        )
    }

    fn read(reader: &OutputReader, at: u64, most: usize) -> Poll<OutputAt> {
        reader.poll_at(at, most, &Context::from_waker(Waker::noop()))
    }

    fn bytes(text: &str) -> Poll<OutputAt> {
        Poll::Ready(OutputAt::Bytes(text.as_bytes().to_vec()))
    }

    #[test]
    fn each_reader_reads_each_byte_also_in_pieces_and_again() {
        let log = OutputLog::with_policy(1000, WhenFull::Wait);
        assert_eq!((append(&log, "abc"), append(&log, "def")), (Poll::Ready(()), Poll::Ready(())));
        let (one, other) = (log.reader_of_kept(), log.reader_of_kept());
        assert_eq!((read(&one, 0, 2), read(&one, 2, 9)), (bytes("ab"), bytes("cdef")));
        assert_eq!((read(&one, 1, 3), read(&one, 6, 9)), (bytes("bcd"), Poll::Pending));
        assert_eq!(read(&other, 0, 99), bytes("abcdef"));
        log.close();
        assert_eq!(read(&one, 6, 9), Poll::Ready(OutputAt::End));
    }

    #[test]
    fn a_writer_without_a_reader_waits_and_its_oldest_bytes_are_kept() {
        let log = OutputLog::with_policy(2 * (OVERHEAD + 1), WhenFull::Wait);
        assert_eq!((append(&log, "a"), append(&log, "b")), (Poll::Ready(()), Poll::Ready(())));
        assert_eq!(append(&log, "c"), Poll::Pending);
        let reader = log.reader_of_kept();
        assert_eq!(append(&log, "c"), Poll::Pending);
        assert_eq!(read(&reader, 0, 9), bytes("ab"));
        assert_eq!(append(&log, "c"), Poll::Ready(()));
        assert_eq!(read(&reader, 0, 9), Poll::Ready(OutputAt::Dropped));
        // A late reader begins at what is kept.
        let late = log.reader_of_kept();
        assert_eq!((late.begin(), read(&late, 0, 9)), (1, bytes("bc")));
    }

    #[test]
    fn the_slowest_reader_holds_the_writer() {
        let log = OutputLog::with_policy(OVERHEAD + 1, WhenFull::Wait);
        let (fast, slow) = (log.reader_of_kept(), log.reader_of_kept());
        assert_eq!(append(&log, "a"), Poll::Ready(()));
        assert_eq!((read(&fast, 0, 9), append(&log, "b")), (bytes("a"), Poll::Pending));
        drop(slow);
        assert_eq!(append(&log, "b"), Poll::Ready(()));
        assert_eq!(read(&fast, 1, 9), bytes("b"));
    }

    #[test]
    fn what_waits_is_woken_by_the_change() {
        let log = OutputLog::with_policy(OVERHEAD + 1, WhenFull::Wait);
        let reader = log.reader_of_kept();
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        assert_eq!(reader.poll_at(0, 9, &Context::from_waker(&waker)), Poll::Pending);
        assert_eq!(append(&log, "a"), Poll::Ready(()));
        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
        let place = log.wait_place();
        let full = log.poll_append((&source(), b"b"), &place, &Context::from_waker(&waker));
        assert_eq!(full, Poll::Pending);
        assert_eq!(read(&reader, 0, 9), bytes("a"));
        assert_eq!(counter.0.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_log_that_is_full_drops_instead_of_waiting_if_it_may() {
        let log = OutputLog::with_policy(OVERHEAD + 1, WhenFull::Wait);
        assert_eq!((append(&log, "a"), append(&log, "b")), (Poll::Ready(()), Poll::Pending));
        log.set_when_full(WhenFull::DropOldest);
        assert_eq!(append(&log, "b"), Poll::Ready(()));
        assert_eq!(log.reader_of_kept().begin(), 1);
    }
}
