//! The lines that an open `copy` returns to the service that wrote it.

use super::outcome::ReportLine;
use crate::lock::lock;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

/// Lines that wait for their reader. There are at most two for each target, but for those that say
/// that the work goes on, of which one waits.
#[derive(Debug, Default)]
pub struct Report(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<String>,
    has_ended: bool,
    readers: Vec<Waker>,
}

impl Report {
    /// Adds a line.
    pub fn add(&self, line: &ReportLine) {
        let mut state = lock(&self.0);
        if *line == ReportLine::Working && !state.lines.is_empty() {
            return;
        }
        state.lines.push_back(line.to_text());
        wake(state.readers.drain(..));
    }

    /// No further line follows.
    pub fn end(&self) {
        let mut state = lock(&self.0);
        state.has_ended = true;
        wake(state.readers.drain(..));
    }

    /// The next lines that fit, at least one; none at the end.
    pub fn poll_read(&self, most: usize, context: &Context<'_>) -> Poll<Bytes> {
        let mut state = lock(&self.0);
        let mut text = String::new();
        while let Some(line) = state.lines.pop_front() {
            if !text.is_empty() && text.len() + line.len() > most {
                state.lines.push_front(line);
                break;
            }
            text.push_str(&line);
        }
        if text.is_empty() && !state.has_ended {
            state.readers.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(text.into())
    }
}

fn wake(readers: impl Iterator<Item = Waker>) {
    readers.for_each(Waker::wake);
}
