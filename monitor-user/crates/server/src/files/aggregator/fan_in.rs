//! Records of all children that wait for one open `push`: a queue with a limit for each child.
//!
//! In: lines, by child. Out: whole lines while they fit, of one child after another, so that none
//! delays the rest. Beyond a limit the oldest of a child are dropped, and a line
//! `(lost CHILD N)` in front of its next one has their number.

use crate::lock::lock;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Most lines of a child that wait.
const CHILD_LINES: usize = 64;
/// Most bytes of them; one is kept also if it is longer.
const CHILD_BYTES: usize = 256 << 10;
/// Most bytes of all children.
const ALL_BYTES: usize = 8 << 20;

/// The queues.
#[derive(Default)]
pub struct FanIn(Mutex<Queues>);

#[derive(Default)]
struct Queues {
    children: BTreeMap<Arc<str>, ChildQueue>,
    /// The children that have lines, in their turn.
    turns: VecDeque<Arc<str>>,
    bytes: usize,
    /// The rest of a line that was longer than the read.
    rest: Bytes,
    is_closed: bool,
    reader: Option<Waker>,
}

#[derive(Default)]
struct ChildQueue {
    lines: VecDeque<Bytes>,
    bytes: usize,
    /// Lines that were dropped before the first.
    lost: u64,
}

impl FanIn {
    /// Adds a line of a child; how many were dropped for it.
    pub fn add(&self, child: &Arc<str>, line: Bytes) -> u64 {
        let mut queues = lock(&self.0);
        let mut dropped = 0;
        queues.push(child, line);
        let is_over = |it: &ChildQueue| it.lines.len() > CHILD_LINES || it.bytes > CHILD_BYTES;
        while queues.children.get(child).is_some_and(|it| it.lines.len() > 1 && is_over(it)) {
            dropped += queues.drop_oldest(child);
        }
        while queues.bytes > ALL_BYTES {
            let has_more = queues.children.get(child).is_some_and(|it| it.lines.len() > 1);
            let first = queues.turns.front().filter(|_| !has_more).cloned();
            dropped += queues.drop_oldest(&first.unwrap_or_else(|| Arc::clone(child)));
        }
        wake(queues.reader.take());
        dropped
    }

    /// Counts records of a child that were lost before they arrived here.
    pub fn lose(&self, child: &Arc<str>, n: u64) {
        lock(&self.0).children.entry(Arc::clone(child)).or_default().lost += n;
    }

    /// Nothing follows.
    pub fn close(&self) {
        let mut queues = lock(&self.0);
        queues.is_closed = true;
        wake(queues.reader.take());
    }

    /// Whole lines while they fit in `most` bytes; a part of one that does not. None when nothing
    /// follows.
    pub fn poll(&self, most: usize, context: &Context<'_>) -> Poll<Bytes> {
        let mut queues = lock(&self.0);
        let mut out = BytesMut::new();
        let rest = queues.rest.len().min(most);
        out.extend_from_slice(&queues.rest.split_to(rest));
        while queues.rest.is_empty() {
            let Some(line) = queues.next_line(most - out.len(), out.is_empty()) else { break };
            let length = line.len().min(most - out.len());
            out.extend_from_slice(&line[..length]);
            queues.rest = line;
            queues.rest.advance(length);
        }
        if !out.is_empty() || most == 0 || queues.is_closed {
            return Poll::Ready(out.freeze());
        }
        queues.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Queues {
    fn push(&mut self, child: &Arc<str>, line: Bytes) {
        let queue = self.children.entry(Arc::clone(child)).or_default();
        if queue.lines.is_empty() {
            self.turns.push_back(Arc::clone(child));
        }
        queue.bytes += line.len();
        self.bytes += line.len();
        queue.lines.push_back(line);
    }

    /// Drops the oldest line of a child, and counts it; the number of lines that were dropped.
    fn drop_oldest(&mut self, child: &Arc<str>) -> u64 {
        let Some(queue) = self.children.get_mut(child) else { return 0 };
        let Some(line) = queue.lines.pop_front() else { return 0 };
        queue.bytes -= line.len();
        queue.lost += 1;
        self.bytes -= line.len();
        if queue.lines.is_empty() {
            self.turns.retain(|it| it != child);
        }
        1
    }

    /// The next line of the child whose turn it is, if it fits, or if it is the first.
    fn next_line(&mut self, room: usize, is_first: bool) -> Option<Bytes> {
        let child = self.turns.front()?;
        let queue = self.children.get_mut(child)?;
        if queue.lost > 0 {
            let line = format!("(lost {child} {})\n", queue.lost);
            if line.len() > room && !is_first {
                return None;
            }
            queue.lost = 0;
            return Some(line.into());
        }
        if queue.lines.front().is_some_and(|it| it.len() > room) && !is_first {
            return None;
        }
        let line = queue.lines.pop_front()?;
        queue.bytes -= line.len();
        self.bytes -= line.len();
        let has_more = !queue.lines.is_empty();
        let child = self.turns.pop_front()?;
        if has_more {
            self.turns.push_back(child);
        } else {
            // A child that is followed no longer leaves nothing.
            self.children.remove(&child);
        }
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

    fn poll(queue: &FanIn, most: usize) -> Option<String> {
        match queue.poll(most, &Context::from_waker(Waker::noop())) {
            Poll::Ready(it) => Some(String::from_utf8(it.to_vec()).expect("text")),
            Poll::Pending => None,
        }
    }

    fn names() -> [Arc<str>; 2] {
        ["a", "b"].map(Arc::from)
    }

    #[test]
    fn children_take_turns_and_whole_lines_are_read_while_they_fit() {
        let (queue, [a, b]) = (FanIn::default(), names());
        assert_eq!(poll(&queue, 10), None);
        for (child, line) in [(&a, "(a1)\n"), (&a, "(a2)\n"), (&a, "(a3)\n"), (&b, "(b1)\n")] {
            assert_eq!(queue.add(child, line.into()), 0);
        }
        assert_eq!(poll(&queue, 12), Some("(a1)\n(b1)\n".to_owned()));
        assert_eq!(poll(&queue, 3), Some("(a2".to_owned()));
        assert_eq!(poll(&queue, 100), Some(")\n(a3)\n".to_owned()));
        assert_eq!(poll(&queue, 100), None);
        queue.close();
        assert_eq!(poll(&queue, 100), Some(String::new()));
    }

    #[test]
    fn what_a_slow_reader_loses_is_counted_by_child_and_no_other_loses_any() {
        let (queue, [a, b]) = (FanIn::default(), names());
        queue.add(&b, "(b)\n".into());
        let dropped: u64 = (0..CHILD_LINES + 7).map(|_| queue.add(&a, "(a)\n".into())).sum();
        assert_eq!(dropped, 7);
        assert_eq!(poll(&queue, 4), Some("(b)\n".to_owned()));
        assert_eq!(poll(&queue, 15), Some("(lost a 7)\n(a)\n".to_owned()));
        queue.lose(&a, 2);
        assert_eq!(poll(&queue, 15), Some("(lost a 2)\n(a)\n".to_owned()));
    }

    #[test]
    fn all_children_together_have_a_limit() {
        let queue = FanIn::default();
        let line = Bytes::from(vec![b'x'; CHILD_BYTES]);
        let names: Vec<Arc<str>> = (0..40).map(|it| it.to_string().into()).collect();
        let dropped: u64 = names.iter().map(|it| queue.add(it, line.clone())).sum();
        assert_eq!(dropped, 40 - (ALL_BYTES / CHILD_BYTES) as u64);
        assert_eq!(lock(&queue.0).bytes, ALL_BYTES);
        // A child whose lines were all dropped has no turn, and its loss is not forgotten.
        assert_eq!(lock(&queue.0).turns.len(), ALL_BYTES / CHILD_BYTES);
        queue.add(&names[0], "(0)\n".into());
        let all = poll(&queue, 2 * ALL_BYTES).expect("lines");
        assert!(all.contains("(lost 0 1)\n(0)\n"), "{}", all.len());
    }
}
