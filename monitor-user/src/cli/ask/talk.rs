//! The conversation: says lines one after the other, prints what comes, knows when it is over.

use super::super::exit::{Exit, Failure};
use super::super::output::{Output, Reader, say};
use super::super::words::Ask;
use super::verdict::Verdict;
use super::{Came, Way, input};
use monitor_omis::{Dialect, Fault, Reply, RequestId, Status, parse, picture};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A conversation.
pub struct Talk<'w> {
    words: &'w Ask,
    way: Box<dyn Way>,
    came: Receiver<Came>,
    /// Lines that were not said yet.
    lines: VecDeque<Vec<u8>>,
    /// How many of them nobody asked for: of their replies, only what went wrong is printed.
    n_quiet: usize,
    /// The reply that is waited for, and whether it is printed in any case.
    owed: Option<(RequestId, bool)>,
    has_more: bool,
    n_told: u64,
    deadline: Option<Instant>,
    out: Output,
    verdict: Verdict,
}

impl<'w> Talk<'w> {
    /// One that has not begun.
    pub fn new(words: &'w Ask, way: Box<dyn Way>, came: Receiver<Came>) -> Self {
        let lines: VecDeque<Vec<u8>> =
            input::opening(words).into_iter().map(String::into_bytes).collect();
        Self {
            words,
            way,
            came,
            n_quiet: lines.len(),
            lines,
            owed: None,
            has_more: true,
            n_told: 0,
            deadline: None,
            out: Output::Stream,
            verdict: Verdict::default(),
        }
    }

    /// Talks until it is over.
    pub fn run(mut self) -> Result<Exit, Failure> {
        loop {
            self.say_next()?;
            if self.is_over() {
                return Ok(self.verdict.exit());
            }
            let pace = self.way.look();
            let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let came = match pace.into_iter().chain(left).min() {
                Some(time) => self.came.recv_timeout(time),
                None => self.came.recv().map_err(RecvTimeoutError::from),
            };
            match came {
                Ok(Came::Said(line)) => self.lines.push_back(line),
                Ok(Came::NoMore) => self.has_more = false,
                Ok(Came::Heard(line)) if self.heard(&line)? == Reader::Gone => {
                    return Ok(self.verdict.exit());
                }
                Ok(Came::Heard(_)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Came::Gone) | Err(RecvTimeoutError::Disconnected) => {
                    let message = "the daemon has closed the connection".to_owned();
                    return Err(Failure { message, exit: Exit::NoDaemon });
                }
            }
        }
    }

    fn say_next(&mut self) -> Result<(), Failure> {
        if self.owed.is_some() {
            return Ok(());
        }
        let Some(line) = self.lines.pop_front() else { return Ok(()) };
        let is_quiet = self.n_quiet > 0;
        self.n_quiet = self.n_quiet.saturating_sub(1);
        let id = match parse::request(&line, self.dialect()) {
            Ok(request) => request.id(),
            Err(fault) => self.draw(&line, &fault),
        };
        self.owed = Some((id.unwrap_or_default(), !is_quiet));
        self.way.say(&line)
    }

    /// What a mistake looks like; what the monitor says of it is the same in one line.
    fn draw(&self, line: &[u8], fault: &Fault) -> Option<RequestId> {
        for line in picture::picture(line, fault).lines() {
            say(line);
        }
        fault.id
    }

    fn heard(&mut self, line: &str) -> Result<Reader, Failure> {
        let reply = parse::reply(line.as_bytes()).map_err(|fault| {
            Failure::failed(format!("the monitor said what is no reply: {fault}: {line}"))
        })?;
        let id = reply.0.first().map(|answer| answer.id).unwrap_or_default();
        let owed = self.owed.take_if(|(owed, _)| *owed == id);
        self.n_told += u64::from(owed.is_none());
        self.verdict.take(&reply);
        if owed.is_some_and(|(_, is_wanted)| !is_wanted && is_plain(&reply)) {
            return Ok(Reader::There);
        }
        self.out.put(format!("{line}\n").as_bytes())
    }

    /// Whether everything was said and answered, and nothing more is waited for.
    fn is_over(&mut self) -> bool {
        if self.has_more || self.owed.is_some() || !self.lines.is_empty() {
            return false;
        }
        let (span, count) = (self.words.span, self.words.count);
        if span.is_none() && count.is_none() {
            return true;
        }
        let now = Instant::now();
        // A hundred years are as long as is waited for.
        let span = span.unwrap_or(Duration::from_secs(100 * 365 * 24 * 3600));
        let deadline = *self.deadline.get_or_insert(now + span);
        count.is_some_and(|most| self.n_told >= most) || deadline <= now
    }

    const fn dialect(&self) -> Dialect {
        if self.words.strict && self.n_quiet == 0 { Dialect::Strict } else { Dialect::Extended }
    }
}

fn is_plain(reply: &Reply) -> bool {
    reply.status() == Status::OK
}
