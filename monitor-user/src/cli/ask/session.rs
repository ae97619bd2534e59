//! The session of `ask`: sends requests one after the other, prints replies, decides when to end.

use super::super::daemon_args::AskArgs;
use super::super::exit::{Exit, Failure};
use super::super::output::{Output, OutputState, notice};
use super::exit_status::WorstStatus;
use super::{Incoming, Transport, input};
use monitor_omis::{Dialect, Fault, Reply, RequestId, Status, caret, parse};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A session.
pub struct AskSession<'w> {
    args: &'w AskArgs,
    transport: Box<dyn Transport>,
    incoming: Receiver<Incoming>,
    /// Requests not sent yet.
    lines: VecDeque<Vec<u8>>,
    /// How many of them the program added: of their replies, only failures are printed.
    n_quiet: usize,
    /// The request whose reply is pending, and whether it is printed even on success.
    pending: Option<(RequestId, bool)>,
    has_more: bool,
    n_events: u64,
    deadline: Option<Instant>,
    out: Output,
    status: WorstStatus,
}

impl<'w> AskSession<'w> {
    /// Queues the opening requests.
    pub fn new(
        args: &'w AskArgs,
        transport: Box<dyn Transport>,
        incoming: Receiver<Incoming>,
    ) -> Self {
        let lines: VecDeque<Vec<u8>> =
            input::opening(args).into_iter().map(String::into_bytes).collect();
        Self {
            args,
            transport,
            incoming,
            n_quiet: lines.len(),
            lines,
            pending: None,
            has_more: true,
            n_events: 0,
            deadline: None,
            out: Output::Stream,
            status: WorstStatus::default(),
        }
    }

    /// Runs until all requests are answered and the limits are reached.
    pub fn run(mut self) -> Result<Exit, Failure> {
        loop {
            self.send_next()?;
            if self.is_over() {
                return Ok(self.status.exit());
            }
            let poll_after = self.transport.poll();
            let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let incoming = match poll_after.into_iter().chain(left).min() {
                Some(time) => self.incoming.recv_timeout(time),
                None => self.incoming.recv().map_err(RecvTimeoutError::from),
            };
            match incoming {
                Ok(Incoming::Request(line)) => self.lines.push_back(line),
                Ok(Incoming::EndOfInput) => self.has_more = false,
                Ok(Incoming::Reply(line)) if self.reply(&line)? == OutputState::Closed => {
                    return Ok(self.status.exit());
                }
                Ok(Incoming::Reply(_)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Incoming::Disconnected) | Err(RecvTimeoutError::Disconnected) => {
                    let message = "the daemon has closed the connection".to_owned();
                    return Err(Failure { message, exit: Exit::NoDaemon });
                }
            }
        }
    }

    fn send_next(&mut self) -> Result<(), Failure> {
        if self.pending.is_some() {
            return Ok(());
        }
        let Some(line) = self.lines.pop_front() else { return Ok(()) };
        let is_quiet = self.n_quiet > 0;
        self.n_quiet = self.n_quiet.saturating_sub(1);
        let id = match parse::request(&line, self.dialect()) {
            Ok(request) => request.id(),
            Err(fault) => self.print_syntax_error(&line, &fault),
        };
        self.pending = Some((id.unwrap_or_default(), !is_quiet));
        self.transport.send(&line)
    }

    /// Prints a syntax error with a caret. The reply contains the same error in one line.
    fn print_syntax_error(&self, line: &[u8], fault: &Fault) -> Option<RequestId> {
        for line in caret::render(line, fault).lines() {
            notice(line);
        }
        fault.id
    }

    fn reply(&mut self, line: &str) -> Result<OutputState, Failure> {
        let reply = parse::reply(line.as_bytes())
            .map_err(|fault| Failure::failed(format!("malformed reply: {fault}: {line}")))?;
        let id = reply.0.first().map(|answer| answer.id).unwrap_or_default();
        let pending = self.pending.take_if(|(pending, _)| *pending == id);
        self.n_events += u64::from(pending.is_none());
        self.status.add(&reply);
        if pending.is_some_and(|(_, is_wanted)| !is_wanted && is_ok(&reply)) {
            return Ok(OutputState::Open);
        }
        self.out.put(format!("{line}\n").as_bytes())
    }

    /// Whether all requests are answered and no event is waited for.
    fn is_over(&mut self) -> bool {
        if self.has_more || self.pending.is_some() || !self.lines.is_empty() {
            return false;
        }
        let (span, count) = (self.args.span, self.args.count);
        if span.is_none() && count.is_none() {
            return true;
        }
        let now = Instant::now();
        // Without --for: a hundred years.
        let span = span.unwrap_or(Duration::from_secs(100 * 365 * 24 * 3600));
        let deadline = *self.deadline.get_or_insert(now + span);
        count.is_some_and(|most| self.n_events >= most) || deadline <= now
    }

    const fn dialect(&self) -> Dialect {
        if self.args.strict && self.n_quiet == 0 { Dialect::Strict } else { Dialect::Extended }
    }
}

fn is_ok(reply: &Reply) -> bool {
    reply.status() == Status::OK
}
