//! The events of a session, or of the node for one user: what is kept of them, and what waits for
//! the next.
//!
//! In: events as words, each at its time. Out: one list a line, by number or as a stream of bytes.
//! The oldest lines are dropped beyond the limit; a reader that had not read them gets their
//! number.

use crate::lock::lock;
use bytes::{Bytes, BytesMut};
use monitor_control::waker_list::{WaitPlace, WakerList};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// Most bytes of events that are kept.
pub const MAX_EVENT_BYTES: usize = 1 << 20;
/// Memory of a kept line beside its text, in bytes.
const OVERHEAD: usize = 64;

/// The events.
#[derive(Default)]
pub struct EventLog {
    kept: Mutex<Kept>,
    /// The readers that wait: an open file each.
    waiting: WakerList,
}

#[derive(Default)]
struct Kept {
    lines: VecDeque<Bytes>,
    /// The number of the oldest line that is kept, from 0.
    first: u64,
    /// The bytes of all lines before it.
    first_at: u64,
    /// The bytes of the lines that are kept.
    bytes: usize,
    /// Nothing follows.
    is_closed: bool,
}

/// A reader of events.
pub struct EventReader {
    log: Arc<EventLog>,
    place: WaitPlace,
}

/// Lines that a reader gets at once.
#[derive(Debug, PartialEq, Eq)]
pub struct EventBatch {
    /// The lines, after one with the number of lost ones, if there are any.
    pub text: Bytes,
    /// The number of the line that follows them.
    pub next: u64,
}

impl EventLog {
    /// Adds an event: `content` is a list, or several; `unix_ns` when it occurred.
    pub fn add(&self, unix_ns: u64, content: &str) {
        self.add_line(|number| {
            let mut line = String::with_capacity(64 + content.len());
            let _ = writeln!(line, "(event (seq {number}) (time {unix_ns}) {content})");
            line
        });
    }

    /// Adds the line of an event, which has this number and ends with its only line break.
    pub fn add_line(&self, line: impl FnOnce(u64) -> String) {
        let mut kept = lock(&self.kept);
        if kept.is_closed {
            return;
        }
        let line = line(kept.end());
        kept.bytes += line.len();
        kept.lines.push_back(line.into());
        while kept.bytes + OVERHEAD * kept.lines.len() > MAX_EVENT_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.len();
            kept.first += 1;
            kept.first_at += oldest.len() as u64;
        }
        drop(kept);
        self.waiting.wake();
    }

    /// Nothing follows: all that wait get what is there.
    pub fn close(&self) {
        let mut kept = lock(&self.kept);
        kept.is_closed = true;
        drop(kept);
        self.waiting.wake();
    }

    /// A reader.
    pub fn reader(self: &Arc<Self>) -> EventReader {
        EventReader { log: Arc::clone(self), place: self.waiting.add_place() }
    }

    /// The number that the next event has.
    pub fn end(&self) -> u64 {
        lock(&self.kept).end()
    }

    /// Where the bytes that are kept begin, counted from the first event.
    pub fn first_at(&self) -> u64 {
        lock(&self.kept).first_at
    }
}

impl EventReader {
    /// The events from a number on, as many as fit in `most` bytes, but at least one; none when
    /// nothing follows. Takes nothing: the reader begins at `next` the next time. With `begin`,
    /// those alone whose content begins so, which may be none of many.
    pub fn poll_batch(
        &self,
        (from, begin): (u64, Option<&str>),
        most: usize,
        context: &Context<'_>,
    ) -> Poll<EventBatch> {
        let kept = lock(&self.log.kept);
        if from >= kept.end() && !kept.is_closed {
            return self.wait(context);
        }
        let mut text = BytesMut::new();
        let lost = kept.first.saturating_sub(from);
        if lost > 0 {
            text.extend_from_slice(format!("(lost {lost})\n").as_bytes());
        }
        let mut next = from.max(kept.first);
        let skipped = usize::try_from(next - kept.first).unwrap_or(usize::MAX);
        let mut is_first = true;
        for line in kept.lines.iter().skip(skipped) {
            if begin.is_none_or(|it| begins(line, it)) {
                if !is_first && text.len() + line.len() > most {
                    break;
                }
                is_first = false;
                text.extend_from_slice(line);
            }
            next += 1;
        }
        Poll::Ready(EventBatch { text: text.freeze(), next })
    }

    /// The bytes from `at` on, at most `most`; none when nothing follows. `None` if they are not
    /// kept any longer.
    pub fn poll_bytes(&self, at: u64, most: usize, context: &Context<'_>) -> Poll<Option<Bytes>> {
        let kept = lock(&self.log.kept);
        let Some(skipped) = at.checked_sub(kept.first_at) else { return Poll::Ready(None) };
        let mut skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        if skipped >= kept.bytes {
            if kept.is_closed {
                return Poll::Ready(Some(Bytes::new()));
            }
            return self.wait(context);
        }
        let mut text = BytesMut::new();
        for line in &kept.lines {
            if skipped >= line.len() {
                skipped -= line.len();
                continue;
            }
            let rest = &line[skipped..];
            skipped = 0;
            text.extend_from_slice(&rest[..rest.len().min(most - text.len())]);
            if text.len() == most {
                break;
            }
        }
        Poll::Ready(Some(text.freeze()))
    }

    /// Called with the lock: what is added later wakes.
    fn wait<T>(&self, context: &Context<'_>) -> Poll<T> {
        self.place.wait(context);
        Poll::Pending
    }
}

impl Kept {
    fn end(&self) -> u64 {
        self.first + self.lines.len() as u64
    }
}

/// Whether the content of a line begins so: what follows `(event (seq N) (time N)`.
fn begins(line: &[u8], begin: &str) -> bool {
    line.splitn(6, |it| *it == b' ').nth(5).is_some_and(|it| it.starts_with(begin.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    fn batch(log: &Arc<EventLog>, from: u64, most: usize) -> Option<(String, u64)> {
        match log.reader().poll_batch((from, None), most, &Context::from_waker(Waker::noop())) {
            Poll::Ready(it) => Some((String::from_utf8(it.text.to_vec()).expect("text"), it.next)),
            Poll::Pending => None,
        }
    }

    fn bytes(log: &Arc<EventLog>, at: u64, most: usize) -> Poll<Option<Bytes>> {
        log.reader().poll_bytes(at, most, &Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_batch_has_whole_lines_and_takes_nothing() {
        let log = Arc::new(EventLog::default());
        assert_eq!(batch(&log, 0, 1000), None);
        log.add(5, "(start (pid 1))");
        log.add(6, "(start (pid 2))");
        let first = "(event (seq 0) (time 5) (start (pid 1)))\n".to_owned();
        let second = "(event (seq 1) (time 6) (start (pid 2)))\n";
        // One that does not fit is returned all the same, because nothing else would follow.
        for most in [1, first.len(), 2 * first.len() - 1] {
            assert_eq!(batch(&log, 0, most), Some((first.clone(), 1)));
        }
        assert_eq!(batch(&log, 0, 1000), Some((first + second, 2)));
        assert_eq!(batch(&log, 1, 1000), Some((second.to_owned(), 2)));
        assert_eq!(batch(&log, 2, 1000), None);
        log.close();
        assert_eq!(batch(&log, 2, 1000), Some((String::new(), 2)));
        log.add(7, "(start (pid 3))");
        assert_eq!(log.end(), 2);
    }

    #[test]
    fn what_is_dropped_is_counted() {
        let log = Arc::new(EventLog::default());
        let n = MAX_EVENT_BYTES as u64 / 100;
        for at in 0..n {
            log.add(at, "(start (pid 1))");
        }
        let kept = lock(&log.kept);
        let first = kept.first;
        assert!(first > 0 && kept.bytes + OVERHEAD * kept.lines.len() <= MAX_EVENT_BYTES);
        drop(kept);
        let (text, next) = batch(&log, 3, 200).expect("lines");
        let lost = first - 3;
        assert!(text.starts_with(&format!("(lost {lost})\n(event (seq {first}) ")), "{text}");
        assert_eq!(next, first + text.lines().count() as u64 - 1);
        assert_eq!(bytes(&log, 0, 10), Poll::Ready(None));
        let begin = log.first_at();
        assert_eq!(bytes(&log, begin, 7), Poll::Ready(Some(Bytes::from_static(b"(event "))));
    }

    #[test]
    fn a_reader_that_leaves_does_not_wait() {
        let log = Arc::new(EventLog::default());
        let readers: Vec<_> = (0..3).map(|_| log.reader()).collect();
        let context = Context::from_waker(Waker::noop());
        for it in readers.iter().chain(&readers) {
            assert!(it.poll_batch((0, None), 10, &context).is_pending());
        }
        assert_eq!(log.waiting.len(), 3);
        drop(readers);
        assert_eq!(log.waiting.len(), 0);
    }

    #[test]
    fn bytes_are_read_from_any_place() {
        let log = Arc::new(EventLog::default());
        log.add(5, "(a)");
        log.add(6, "(b)");
        let all = "(event (seq 0) (time 5) (a))\n(event (seq 1) (time 6) (b))\n";
        for at in 0..all.len() {
            for most in [1, 5, 1000] {
                let want = &all.as_bytes()[at..all.len().min(at + most)];
                let read = bytes(&log, at as u64, most);
                assert_eq!(read, Poll::Ready(Some(Bytes::copy_from_slice(want))), "{at} {most}");
            }
        }
        assert_eq!(bytes(&log, all.len() as u64, 5), Poll::Pending);
        assert_eq!(bytes(&log, u64::MAX, 5), Poll::Pending);
        log.close();
        assert_eq!(bytes(&log, all.len() as u64, 5), Poll::Ready(Some(Bytes::new())));
    }
}
