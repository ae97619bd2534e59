//! Samples that wait for one open `mon/push`.
//!
//! In: lines, and how many were lost before. Out: whole lines while they fit. Beyond the limit the
//! oldest are dropped, and their number is the next line.

use crate::lock::lock;
use bytes::{Buf, Bytes, BytesMut};
use monitor_ninep::FileError;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

/// Most samples that wait.
pub const MAX_SAMPLES: usize = 64;
/// Most bytes of them; one is kept also if it is longer.
pub const MAX_SAMPLE_BYTES: usize = 256 << 10;

/// The queue.
#[derive(Default)]
pub struct SampleQueue(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    lines: VecDeque<Bytes>,
    bytes: usize,
    /// Samples that were dropped before the first line.
    lost: u64,
    /// The rest of a line that was longer than the read.
    rest: Bytes,
    /// Why nothing follows; without an error, because the source has ended.
    end: Option<Option<FileError>>,
    reader: Option<Waker>,
}

impl SampleQueue {
    /// Adds a line, and counts the samples that were lost before it.
    pub fn add(&self, line: String, lost: u64) {
        let mut queue = lock(&self.0);
        // In the order of the loss, as far as one number can say it.
        queue.lost += lost;
        queue.bytes += line.len();
        queue.lines.push_back(line.into());
        while queue.lines.len() > 1
            && (queue.lines.len() > MAX_SAMPLES || queue.bytes > MAX_SAMPLE_BYTES)
        {
            if let Some(oldest) = queue.lines.pop_front() {
                queue.bytes -= oldest.len();
                queue.lost += 1;
            }
        }
        wake(queue.reader.take());
    }

    /// A queue for another source, with what waits in this one and its reader.
    pub fn continued(&self) -> Self {
        let old = std::mem::take(&mut *lock(&self.0));
        Self(Mutex::new(Queue { end: None, ..old }))
    }

    /// Counts samples that were lost before the next line.
    pub fn lose(&self, lost: u64) {
        lock(&self.0).lost += lost;
    }

    /// Nothing follows.
    pub fn end(&self, error: Option<FileError>) {
        let mut queue = lock(&self.0);
        queue.end.get_or_insert(error);
        wake(queue.reader.take());
    }

    /// Whole lines while they fit in `most` bytes; a part of one that does not. None when nothing
    /// follows.
    ///
    /// # Errors
    ///
    /// When the source has failed: once.
    pub fn poll(&self, most: usize, context: &Context<'_>) -> Poll<Result<Bytes, FileError>> {
        let mut queue = lock(&self.0);
        let mut out = BytesMut::new();
        let rest = queue.rest.len().min(most);
        out.extend_from_slice(&queue.rest.split_to(rest));
        while queue.rest.is_empty() {
            let Some(line) = queue.next_line(most - out.len(), out.is_empty()) else { break };
            let length = line.len().min(most - out.len());
            out.extend_from_slice(&line[..length]);
            queue.rest = line;
            queue.rest.advance(length);
        }
        if !out.is_empty() || most == 0 {
            return Poll::Ready(Ok(out.freeze()));
        }
        match &mut queue.end {
            Some(error) => Poll::Ready(error.take().map_or(Ok(Bytes::new()), Err)),
            None => {
                queue.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Queue {
    /// The next line if it fits, or if it is the first.
    fn next_line(&mut self, room: usize, is_first: bool) -> Option<Bytes> {
        let first = self.lines.front()?;
        if self.lost > 0 {
            let line = format!("(lost {})\n", self.lost);
            if line.len() > room && !is_first {
                return None;
            }
            self.lost = 0;
            return Some(line.into());
        }
        if first.len() > room && !is_first {
            return None;
        }
        let line = self.lines.pop_front()?;
        self.bytes -= line.len();
        Some(line)
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_ninep::Errno;

    fn poll(queue: &SampleQueue, most: usize) -> Poll<Result<String, Errno>> {
        let read = queue.poll(most, &Context::from_waker(Waker::noop()));
        let text = |it: Bytes| String::from_utf8(it.to_vec()).expect("text");
        read.map(|it| it.map(text).map_err(|it| it.errno))
    }

    fn ready(text: &str) -> Poll<Result<String, Errno>> {
        Poll::Ready(Ok(text.to_owned()))
    }

    #[test]
    fn whole_lines_are_read_while_they_fit() {
        let queue = SampleQueue::default();
        assert!(poll(&queue, 100).is_pending());
        for line in ["(a)\n", "(bb)\n", "(ccc)\n"] {
            queue.add(line.to_owned(), 0);
        }
        assert_eq!(poll(&queue, 13), ready("(a)\n(bb)\n"));
        assert_eq!(poll(&queue, 4), ready("(ccc"));
        queue.add("(d)\n".to_owned(), 0);
        assert_eq!(poll(&queue, 5), ready(")\n"));
        assert_eq!(poll(&queue, 5), ready("(d)\n"));
        assert!(poll(&queue, 5).is_pending());
        queue.end(None);
        assert_eq!(poll(&queue, 5), ready(""));
    }

    #[test]
    fn the_oldest_are_dropped_and_their_number_is_the_next_line() {
        let queue = SampleQueue::default();
        for at in 0..MAX_SAMPLES + 5 {
            queue.add(format!("({at})\n"), 0);
        }
        assert_eq!(poll(&queue, 15), ready("(lost 5)\n(5)\n"));
        // A read that is full.
        assert_eq!(poll(&queue, 4), ready("(6)\n"));
        queue.add("x".repeat(MAX_SAMPLE_BYTES + 1), 2);
        assert_eq!(poll(&queue, 10), ready(&format!("(lost {})\n", MAX_SAMPLES)));
        assert_eq!(poll(&queue, 3), ready("xxx"));
    }

    #[test]
    fn an_error_is_returned_once() {
        let queue = SampleQueue::default();
        queue.add("(a)\n".to_owned(), 0);
        queue.end(Some(FileError::new(Errno::TryAgain, "the limit")));
        assert_eq!(poll(&queue, 10), ready("(a)\n"));
        assert_eq!(poll(&queue, 10), Poll::Ready(Err(Errno::TryAgain)));
        assert_eq!(poll(&queue, 10), ready(""));
    }

    #[test]
    fn another_source_continues_what_waits_and_an_earlier_one_ends_nothing() {
        let queue = SampleQueue::default();
        queue.add("(a)\n".to_owned(), 3);
        queue.end(Some(FileError::new(Errno::TryAgain, "the limit")));
        let next = queue.continued();
        queue.add("(late)\n".to_owned(), 0);
        queue.end(None);
        assert_eq!(poll(&next, 20), ready("(lost 3)\n(a)\n"));
        assert!(poll(&next, 20).is_pending());
    }
}
