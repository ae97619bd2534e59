//! Two logs of one order, read as one: the parts in the order in which they were added.
//!
//! In: a position in the order. Out: the parts from there, each with the number of bytes before it
//! that are not kept. The writers wait for it as for a reader of each log.

use super::{Kept, OutputLog, OutputPart, OutputReader};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Reads the logs of [`OutputLog::pair`].
#[derive(Debug)]
pub struct MergedReader {
    /// In the order of the pair, in which their locks are taken.
    readers: [OutputReader; 2],
    /// The position of the next part.
    next: u64,
}

/// A part of one of the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPart {
    /// The part; without what is before the position.
    pub part: OutputPart,
    /// The number of bytes between the part before and this one that are not kept.
    pub lost: u64,
}

impl MergedReader {
    /// Begins to read both at a position of their order.
    pub fn new(logs: [&Arc<OutputLog>; 2], from: u64) -> Self {
        Self { readers: logs.map(|it| it.reader_from(0)), next: from }
    }

    /// The position: the number of bytes before the next part.
    pub const fn position(&self) -> u64 {
        self.next
    }

    /// The next part, when it is there; `None` at the end of both.
    pub fn poll_next(&mut self, context: &Context<'_>) -> Poll<Option<MergedPart>> {
        let [one, other] = &self.readers;
        let (of_one, of_other) = (&one.end, &other.end);
        // With both locks, nothing of the order is on its way to a log.
        let mut kept = [of_one.log.lock(), of_other.log.lock()];
        let ids = [of_one.id, of_other.id];
        let [one, other] = &mut kept;
        let mut has_moved = [one.skip_to(ids[0], self.next), other.skip_to(ids[1], self.next)];
        // A process that waits to write may go on where this reader has had what is there.
        let notify = |has_moved: [bool; 2]| {
            let moved = [of_one, of_other].into_iter().zip(has_moved).filter(|(_, it)| *it);
            moved.for_each(|(end, _)| end.log.notify());
        };
        let orders = [0, 1].map(|it| kept[it].next_part(ids[it]).map(|part| part.order));
        let first = match orders {
            [None, None] => {
                let is_complete = |it: &Kept| it.is_closed && it.waiting == 0;
                if kept.iter().all(|it| is_complete(it)) {
                    return Poll::Ready(None);
                }
                self.readers.iter().for_each(|it| it.place.wait(context));
                drop(kept);
                notify(has_moved);
                return Poll::Pending;
            }
            [Some(one), Some(other)] => usize::from(other < one),
            [_, other] => usize::from(other.is_some()),
        };
        let part = kept[first].take(ids[first]).expect("it is the next part");
        drop(kept);
        has_moved[first] = true;
        notify(has_moved);
        let lost = part.order.saturating_sub(self.next);
        let skipped = self.next.saturating_sub(part.order);
        let part = part.clone().after(part.at.saturating_add(skipped));
        self.next = part.order_end();
        Poll::Ready(Some(MergedPart { part, lost }))
    }
}

impl OutputPart {
    /// The position in the order behind it.
    fn order_end(&self) -> u64 {
        self.order.saturating_add(self.end() - self.at)
    }
}

impl Kept {
    /// The next part of a reader, if it is there.
    fn next_part(&self, id: u64) -> Option<&OutputPart> {
        let at = self.readers.get(&id)?.saturating_sub(self.dropped.0);
        self.parts.get(usize::try_from(at).ok()?)
    }

    /// A reader has had what is before a position of the order, and what was dropped. Whether that
    /// is new.
    fn skip_to(&mut self, id: u64, position: u64) -> bool {
        let skipped = self.parts.partition_point(|it| it.order_end() <= position);
        let first = self.dropped.0 + u64::try_from(skipped).unwrap_or(u64::MAX);
        let Some(next) = self.readers.get_mut(&id).filter(|next| **next < first) else {
            return false;
        };
        *next = first;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OVERHEAD, OutputSource, WhenFull};
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    fn pair(parts: usize, when_full: WhenFull) -> [Arc<OutputLog>; 2] {
        OutputLog::pair(parts * (OVERHEAD + 2), when_full)
    }

    fn add(log: &OutputLog, text: &str) {
        let source = OutputSource { group: "session".into(), rank: Some(0), is_error: false };
        log.append(&source, text.as_bytes());
    }

    fn reader(logs: &[Arc<OutputLog>; 2], from: u64) -> MergedReader {
        MergedReader::new([&logs[0], &logs[1]], from)
    }

    /// The parts that are there, each after the bytes that were lost before it.
    fn read(reader: &mut MergedReader) -> String {
        let mut out = String::new();
        while let Poll::Ready(Some(it)) = reader.poll_next(&Context::from_waker(Waker::noop())) {
            if it.lost > 0 {
                out.push_str(&format!("({})", it.lost));
            }
            out.push_str(std::str::from_utf8(&it.part.bytes).unwrap());
        }
        out
    }

    #[test]
    fn parts_come_in_the_order_in_which_they_were_added() {
        let logs = pair(9, WhenFull::Wait);
        let mut early = reader(&logs, 0);
        for (log, text) in [(0, "aa"), (1, "bb"), (1, "cc"), (0, "dd")] {
            add(&logs[log], text);
        }
        assert_eq!(read(&mut early), "aabbccdd");
        assert_eq!((read(&mut reader(&logs, 0)), early.position()), ("aabbccdd".to_owned(), 8));
        assert_eq!(read(&mut reader(&logs, 3)), "bccdd");
        assert_eq!(read(&mut reader(&logs, 9)), "");
        add(&logs[0], "ee");
        assert_eq!(read(&mut early), "ee");
    }

    #[test]
    fn bytes_that_one_of_them_has_dropped_are_counted_where_they_were() {
        let logs = pair(1, WhenFull::DropOldest);
        for (log, text) in [(0, "aa"), (1, "bb"), (1, "cc"), (0, "dd"), (1, "ee")] {
            add(&logs[log], text);
        }
        assert_eq!(read(&mut reader(&logs, 0)), "(6)ddee");
        assert_eq!(read(&mut reader(&logs, 5)), "(1)ddee");
        assert_eq!(read(&mut reader(&logs, 7)), "dee");
    }

    #[test]
    fn the_end_is_that_of_both() {
        let logs = pair(9, WhenFull::Wait);
        let mut it = reader(&logs, 0);
        add(&logs[1], "aa");
        let poll = |it: &mut MergedReader| it.poll_next(&Context::from_waker(Waker::noop()));
        logs[0].close();
        assert!(matches!(poll(&mut it), Poll::Ready(Some(_))));
        assert_eq!(poll(&mut it), Poll::Pending);
        logs[1].close();
        assert_eq!(poll(&mut it), Poll::Ready(None));
    }

    /// Counts how often it is woken.
    struct CountedWakes(AtomicUsize);

    impl Wake for CountedWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_writer_that_waits_for_a_reader_goes_on_when_one_begins_behind_what_is_kept() {
        let logs = pair(1, WhenFull::Wait);
        add(&logs[0], "aa");
        let source = OutputSource { group: "session".into(), rank: Some(0), is_error: false };
        let wakes = Arc::new(CountedWakes(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&wakes));
        let (place, context) = (logs[0].wait_place(), Context::from_waker(&waker));
        let write = || logs[0].poll_append((&source, b"bb"), &place, &context);
        assert!(write().is_pending());
        let mut it = reader(&logs, 2);
        assert_eq!(read(&mut it), "");
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(write().is_ready());
        assert_eq!(read(&mut it), "bb");
    }

    #[test]
    fn a_writer_waits_for_it_on_both() {
        let logs = pair(1, WhenFull::DropOldest);
        let mut it = reader(&logs, 0);
        let source = OutputSource { group: "session".into(), rank: Some(0), is_error: true };
        let context = Context::from_waker(Waker::noop());
        let write =
            |log: usize| logs[log].poll_append((&source, b"aa"), &logs[log].wait_place(), &context);
        assert!(write(0).is_ready() && write(1).is_ready());
        assert!(write(0).is_pending() && write(1).is_pending());
        assert_eq!(read(&mut it), "aaaa");
        assert!(write(0).is_ready() && write(1).is_ready());
    }
}
