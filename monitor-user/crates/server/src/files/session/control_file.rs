//! An open `ctl`: lines of what is written, carried out in their order.
//!
//! A write ends when all its lines are carried out. The first one that fails is its error, and the
//! others are dropped; so is a line that has no end when the file is closed.

use super::LiveSession;
use super::command::carry_out;
use super::control_lines::ControlLines;
use monitor_control::session::SessionError;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Most bytes of a line: a path, quoted, or the targets of `clone`.
const MAX_LINE: usize = 96 << 10;

/// A line that is being carried out.
type Running = Pin<Box<dyn Future<Output = Result<(), SessionError>> + Send>>;

/// An open `ctl`.
pub struct ControlFile {
    session: Arc<LiveSession>,
    lines: ControlLines,
    /// The write that waits, if one does.
    write: Option<ControlWrite>,
}

#[derive(Default)]
struct ControlWrite {
    lines: VecDeque<Vec<u8>>,
    running: Option<Running>,
    /// The number of the line that runs, from 1.
    line: usize,
}

impl ControlFile {
    /// An open file of a session.
    pub const fn new(session: Arc<LiveSession>) -> Self {
        Self { session, lines: ControlLines::new(MAX_LINE), write: None }
    }

    /// Carries out the lines of a write; called again with the same bytes until it is ready.
    pub fn poll_write(
        &mut self,
        content: &[u8],
        context: &mut Context<'_>,
    ) -> Poll<Result<(), SessionError>> {
        if self.write.is_none() {
            self.write = Some(self.begin(content)?);
        }
        let done = ready!(self.poll_lines(context));
        self.write = None;
        if let Err(error) = &done {
            self.lines.clear();
            self.session.record.refused(error);
        }
        Poll::Ready(done)
    }

    /// The write is not waited for any longer: what was not begun is dropped.
    pub fn abandon(&mut self) {
        self.write = None;
        self.lines.clear();
    }

    fn begin(&mut self, content: &[u8]) -> Result<ControlWrite, SessionError> {
        let mut lines = VecDeque::new();
        for piece in content.split_inclusive(|it| *it == b'\n') {
            let line = self.lines.add(piece);
            lines.extend(line.inspect_err(|error| self.session.record.refused(error))?);
        }
        Ok(ControlWrite { lines, ..ControlWrite::default() })
    }

    fn poll_lines(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SessionError>> {
        let Some(write) = &mut self.write else { return Poll::Ready(Ok(())) };
        loop {
            if let Some(running) = &mut write.running {
                let line = write.line;
                let done = ready!(running.as_mut().poll(context));
                write.running = None;
                done.map_err(|it| it.in_line(line))?;
            }
            let Some(line) = write.lines.pop_front() else { return Poll::Ready(Ok(())) };
            write.line += 1;
            write.running = Some(Box::pin(carry_out(Arc::clone(&self.session), line)));
        }
    }
}
