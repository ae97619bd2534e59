//! `monitor ask`: sends OMIS requests and calls of the socket, and prints replies, and events until
//! a limit is reached.
//!
//! In: requests and calls, as arguments or lines of standard input. Out: reply lines; syntax errors
//! are also shown on standard error, with a caret. The worst reply decides the exit code. A line is
//! sent when the one before has its reply. With `--nodes`, many nodes execute it (`gather.rs`).

mod gather;
pub mod transport;
mod worst_status;

use super::args::daemon::AskArgs;
use super::exit::{Exit, Failure};
use super::output::{Output, OutputState, notice};
use monitor_backend::BackendChoice;
use monitor_omis::{Dialect, Fault, Reply, RequestId, Status, Value, caret, parse};
use monitor_protocol::call::{Call, Tag};
use serde::Deserialize;
use std::collections::VecDeque;
use std::io::{BufRead, stdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use transport::{Incoming, LocalTransport, Transport, connect};
use worst_status::WorstStatus;

/// Sends the requests and prints the replies.
pub fn ask(args: &AskArgs) -> Result<Exit, Failure> {
    if let Some(nodes) = &args.nodes {
        return gather::ask_nodes(args, nodes);
    }
    let (sender, incoming) = channel();
    let transport: Box<dyn Transport> = match is_local(args) {
        true => Box::new(LocalTransport::new(args.reader.backend, sender.clone())),
        false => Box::new(connect(args.reader.socket.as_deref(), sender.clone())?),
    };
    send_input(args, sender)?;
    AskSession::new(args, transport, incoming).run()
}

fn is_local(args: &AskArgs) -> bool {
    args.reader.local
        || args.reader.backend != BackendChoice::Auto
        || std::env::var_os("MONITOR_BACKEND").is_some()
}

/// Sends the requests one by one, on a thread that may read standard input until the program ends.
fn send_input(args: &AskArgs, sender: Sender<Incoming>) -> Result<(), Failure> {
    let all = args.request.clone();
    let thread = std::thread::Builder::new().name("input".into());
    let spawned = thread.spawn(move || {
        for word in all {
            if word == "-" {
                let lines = stdin().lock().split(b'\n').map_while(Result::ok);
                for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
                    if sender.send(Incoming::Request(line)).is_err() {
                        return;
                    }
                }
            } else if sender.send(Incoming::Request(word.into_bytes())).is_err() {
                return;
            }
        }
        let _ = sender.send(Incoming::EndOfInput);
    });
    let failed = |why| Failure::failed(format!("cannot read standard input: {why}"));
    spawned.map(drop).map_err(failed)
}

/// The requests that open the session: they attach processes and select the dialect.
fn opening_requests(args: &AskArgs) -> Vec<String> {
    let mut lines = Vec::new();
    let of_cluster = r#"{"jsonrpc":"2.0","id":"cluster","method":"cluster_session"}"#;
    lines.extend(args.cluster.then(|| of_cluster.to_owned()));
    if !args.pid.is_empty() {
        let pids = args.pid.iter().map(|pid| Value::from(*pid)).collect();
        lines.push(format!("0 [] attach({})", Value::List(pids)));
    }
    let text = |text: &String| Value::from(text.as_str());
    let comms = args.comm.iter().map(|comm| format!("0 [] attach_command({})", text(comm)));
    let cgroups = args.cgroup.iter().map(|path| format!("0 [] attach_cgroup({})", text(path)));
    lines.extend(comms.chain(cgroups));
    // Last: a strict session cannot attach.
    lines.extend(args.strict.then(|| "0 [] dialect(\"strict\")".to_owned()));
    lines
}

/// What a reply repeats of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LineId {
    /// Of a request.
    Request(RequestId),
    /// Of a call.
    Call(Tag),
}

/// An answer to a call, or a notice, which has no id.
#[derive(Deserialize)]
struct AnswerLine {
    #[serde(default)]
    id: Option<Tag>,
    #[serde(default)]
    error: Option<AnswerError>,
}

/// Why a call is refused.
#[derive(Deserialize)]
struct AnswerError {
    code: i32,
}

/// Whether a line is a call of the socket, or an answer to one.
fn is_call(line: &[u8]) -> bool {
    line.trim_ascii_start().first() == Some(&b'{')
}

/// A session.
struct AskSession<'w> {
    args: &'w AskArgs,
    transport: Box<dyn Transport>,
    incoming: Receiver<Incoming>,
    /// Requests not sent yet.
    lines: VecDeque<Vec<u8>>,
    /// How many of them the program added: of their replies, only failures are printed.
    n_quiet: usize,
    /// The line whose reply is pending, and whether it is printed even on success.
    pending: Option<(LineId, bool)>,
    has_more: bool,
    n_events: u64,
    deadline: Option<Instant>,
    out: Output,
    status: WorstStatus,
}

impl<'w> AskSession<'w> {
    /// Queues the opening requests.
    fn new(args: &'w AskArgs, transport: Box<dyn Transport>, incoming: Receiver<Incoming>) -> Self {
        let lines: VecDeque<Vec<u8>> =
            opening_requests(args).into_iter().map(String::into_bytes).collect();
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
    fn run(mut self) -> Result<Exit, Failure> {
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
        let id = if is_call(&line) {
            self.call_id(&line)?
        } else {
            let id = match parse::request(&line, self.dialect()) {
                Ok(request) => request.id(),
                Err(fault) => self.print_syntax_error(&line, &fault),
            };
            LineId::Request(id.unwrap_or_default())
        };
        self.pending = Some((id, !is_quiet));
        self.transport.send(&line)
    }

    /// What the answer to a call repeats.
    fn call_id(&self, line: &[u8]) -> Result<LineId, Failure> {
        if is_local(self.args) {
            return Err(Failure::usage("calls of the socket need the daemon: see docs/SOCKET.md"));
        }
        let (tag, call) = Call::from_line(line).map_err(|fault| Failure::usage(fault.message))?;
        let none = || format!("{}: a call without an id has no reply", call.method());
        tag.map(LineId::Call).ok_or_else(|| Failure::usage(none()))
    }

    /// Prints a syntax error with a caret. The reply contains the same error in one line.
    fn print_syntax_error(&self, line: &[u8], fault: &Fault) -> Option<RequestId> {
        for line in caret::render(line, fault).lines() {
            notice(line);
        }
        fault.id
    }

    fn reply(&mut self, line: &str) -> Result<OutputState, Failure> {
        if is_call(line.as_bytes()) {
            return self.answer(line);
        }
        let reply = parse::reply(line.as_bytes())
            .map_err(|fault| Failure::failed(format!("malformed reply: {fault}: {line}")))?;
        let id = reply.0.first().map(|answer| answer.id).unwrap_or_default();
        let id = LineId::Request(id);
        let pending = self.pending.take_if(|(pending, _)| *pending == id);
        self.n_events += u64::from(pending.is_none());
        self.status.add(&reply);
        if pending.is_some_and(|(_, is_wanted)| !is_wanted && is_ok(&reply)) {
            return Ok(OutputState::Open);
        }
        self.out.put(format!("{line}\n").as_bytes())
    }

    /// Handles the answer to a call, or a notice of one.
    fn answer(&mut self, line: &str) -> Result<OutputState, Failure> {
        let answer: AnswerLine = serde_json::from_str(line)
            .map_err(|why| Failure::failed(format!("malformed answer: {why}: {line}")))?;
        let id = answer.id.map(LineId::Call);
        let pending = self.pending.take_if(|(pending, _)| Some(&*pending) == id.as_ref());
        self.n_events += u64::from(pending.is_none());
        let error = answer.error.map(|it| it.code);
        error.into_iter().for_each(|code| self.status.add_call_error(code));
        match pending {
            // Nothing that follows would do what it says.
            Some((_, false)) if error.is_some() => {
                self.lines.clear();
                self.has_more = false;
            }
            Some((_, false)) => return Ok(OutputState::Open),
            _ => {}
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
