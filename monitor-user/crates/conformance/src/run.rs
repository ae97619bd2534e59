//! Runs a case against the implementation at a socket.
//!
//! In: a case, the socket, and `CaseProcesses`, which starts its processes. Out: the verdict.
//! Each case has a session and processes of its own; what it defined is deleted and its processes
//! end before the session. A reply is waited for until a deadline; an unexpected one is noticed
//! because it arrives before the reply to a closing request.

use super::case::Case;
use super::step::{Step, steps};
use super::verdict::{Mismatch, Verdict};
use monitor_client::{Error, tool::Tool};
use monitor_omis::reply_pattern::matches;
use monitor_omis::{Dialect, parse};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A process of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaseProcess {
    /// The number by which requests name it: its pid.
    pub pid: u32,
    /// A writable address of its memory.
    pub data: u64,
    /// The address of a procedure without parameters, which it calls again and again.
    pub code: u64,
}

/// The processes of a case. They end when the value is dropped, and when this process ends.
pub trait CaseProcesses {
    /// Starts a process.
    ///
    /// # Errors
    ///
    /// Why it did not start.
    fn start(&mut self) -> Result<CaseProcess, String>;

    /// Ends a process, numbered from 1 in the order of starting.
    fn end(&mut self, number: usize);

    /// Sends a process a signal.
    fn signal(&mut self, number: usize, signal: i32);
}

/// An implementation of the language.
#[derive(Clone, Copy, Debug)]
pub struct Implementation<'a> {
    /// Its socket; `None` for the daemon of this node.
    pub socket: Option<&'a Path>,
    /// The number of the node of the processes; `None` to ask for it.
    pub node: Option<i64>,
    /// How long a reply may take.
    pub timeout: Duration,
}

/// Why a case could not be run to a verdict.
#[derive(Debug)]
pub enum RunError {
    /// The implementation does not answer, or has closed the session.
    Client(Error),
    /// A process did not start.
    Process(String),
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

/// Runs a case.
///
/// # Errors
///
/// If no verdict is possible: no session, or no processes.
pub fn run(
    case: &Case,
    implementation: Implementation<'_>,
    processes: &mut dyn CaseProcesses,
) -> Result<Verdict, RunError> {
    if let Some(needs) = &case.needs {
        return Ok(Verdict::NotRun(needs.clone()));
    }
    if !case.is_portable() {
        // Each of its sentences has its own reason.
        return Ok(Verdict::NotRun(String::new()));
    }
    let steps = match steps(case) {
        Ok(steps) => steps,
        Err(error) => return Ok(Verdict::NotRun(error.to_string())),
    };
    let mut session = Session::open(implementation)?;
    session.start_all(&steps, processes)?;
    let mut verdict = Verdict::Holds;
    for (line, step) in &steps {
        if let Err(mismatch) = session.step(*line, step, processes)? {
            verdict = Verdict::Fails(mismatch);
            break;
        }
    }
    let last = case.lines.last().map_or(0, |line| line.number);
    if verdict == Verdict::Holds
        && let Err(mismatch) = session.close(last)?
    {
        verdict = Verdict::Fails(mismatch);
    }
    session.undo(steps.iter().map(|(_, step)| step), processes);
    Ok(verdict)
}

/// Whether a reply is the first one to its request, or of an action at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyKind {
    First,
    Later,
}

/// A session of one case.
struct Session {
    tool: Tool,
    timeout: Duration,
    node: i64,
    processes: Vec<CaseProcess>,
    sender: Sender<(ReplyKind, String)>,
    incoming: Receiver<(ReplyKind, String)>,
    /// Replies that were received and not expected yet.
    first: VecDeque<String>,
    later: VecDeque<String>,
    /// The numbers of the actions of requests with an event.
    action_ids: BTreeSet<String>,
    /// How `attach` was refused, if it was.
    refused_attach: Option<String>,
}

type StepResult = Result<(), Mismatch>;

/// The number of the closing request: none that a case uses.
const CLOSING: i64 = 2_000_000_000;

impl Session {
    /// Connects, and selects OMIS 1.0 alone where the implementation has more.
    fn open(implementation: Implementation<'_>) -> Result<Self, RunError> {
        let tool = implementation.socket.map_or_else(Tool::connect, Tool::connect_to)?;
        let (sender, incoming) = channel();
        let unrouted = sender.clone();
        tool.on_unrouted(move |line| {
            let _ = unrouted.send((ReplyKind::First, line.to_owned()));
        });
        let mut it = Self {
            tool,
            timeout: implementation.timeout,
            node: implementation.node.unwrap_or(0),
            processes: Vec::new(),
            sender,
            incoming,
            first: VecDeque::new(),
            later: VecDeque::new(),
            action_ids: BTreeSet::new(),
            refused_attach: None,
        };
        if implementation.node.is_none() {
            let reply = it.ask(&format!("{CLOSING} [] number_of_nodes()"))?;
            let parsed = reply.and_then(|line| parse::reply(line.as_bytes()).ok());
            let answer = parsed.and_then(|reply| reply.0.into_iter().next());
            let node = answer.and_then(|answer| answer.nodes.first().copied());
            it.node = node.map_or(0, |node| i64::from(node.0));
        }
        // An implementation without the service has no other dialect.
        let _reply = it.ask(&format!("{CLOSING} [{}] dialect(\"strict\")", it.node))?;
        Ok(it)
    }

    /// Starts the processes, whose numbers the lines before may already contain.
    fn start_all(
        &mut self,
        steps: &[(usize, Step)],
        processes: &mut dyn CaseProcesses,
    ) -> Result<(), RunError> {
        for _ in steps.iter().filter(|(_, step)| matches!(step, Step::Start(_))) {
            self.processes.push(processes.start().map_err(RunError::Process)?);
        }
        Ok(())
    }

    fn step(
        &mut self,
        line: usize,
        step: &Step,
        processes: &mut dyn CaseProcesses,
    ) -> Result<StepResult, RunError> {
        match step {
            Step::Start(_) => {}
            Step::End(number) => processes.end(*number),
            Step::Signal(number, signal) => processes.signal(*number, *signal),
            Step::Attach(list) => {
                let request = self.fill_in(&format!("{CLOSING} [{{node}}] attach({list})"));
                let reply = self.ask(&request)?.unwrap_or_else(|| "no reply".into());
                // An implementation without the service observes all processes.
                self.refused_attach = (!reply.ends_with("attach(0)")).then_some(reply);
            }
            Step::Request(text) => {
                if let Err(mismatch) = self.expect_nothing_left(line) {
                    return Ok(Err(mismatch));
                }
                let text = self.fill_in(text);
                self.send(&text)?;
            }
            Step::Next(text) => {
                let text = self.fill_in(text);
                self.send(&text)?;
            }
            Step::Reply(pattern) => {
                let pattern = self.fill_in(pattern);
                return Ok(self.expect(line, pattern));
            }
        }
        Ok(Ok(()))
    }

    /// Replaces the names of processes, their node and their memory.
    fn fill_in(&self, text: &str) -> String {
        let mut text = text.replace("{node}", &self.node.to_string());
        for (number, process) in (1..).zip(&self.processes) {
            text = text.replace(&format!("{{{number}}}"), &process.pid.to_string());
        }
        let (data, code) = self.processes.first().map_or((0, 0), |it| (it.data, it.code));
        text.replace("{data}", &data.to_string()).replace("{code}", &code.to_string())
    }

    fn send(&mut self, text: &str) -> Result<(), RunError> {
        if let Ok(request) = parse::request(text.as_bytes(), Dialect::Extended)
            && request.event.is_some()
        {
            let ids = request.actions().filter_map(|it| it.id);
            self.action_ids.extend(ids.map(|id| id.0.to_string()));
        }
        let sender = self.sender.clone();
        let mut kind = ReplyKind::First;
        let callback = move |line: &str| {
            // Fails only when the case is over.
            let _ = sender.send((kind, line.to_owned()));
            kind = ReplyKind::Later;
        };
        Ok(self.tool.request(text, callback)?)
    }

    /// Sends a request of the suite itself; its reply, `None` if there is none in time.
    fn ask(&mut self, text: &str) -> Result<Option<String>, RunError> {
        self.send(text)?;
        let start = format!("{CLOSING} ");
        Ok(self.wait(|session| take(&mut session.first, &start)))
    }

    /// Waits for a reply until the deadline.
    fn wait(&mut self, mut found: impl FnMut(&mut Self) -> Option<String>) -> Option<String> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if let Some(line) = found(self) {
                return Some(line);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let (kind, line) = self.incoming.recv_timeout(left).ok()?;
            self.keep(kind, line);
        }
    }

    fn keep(&mut self, kind: ReplyKind, line: String) {
        match kind {
            ReplyKind::First => self.first.push_back(line),
            ReplyKind::Later => self.later.push_back(line),
        }
    }

    /// Compares the next reply. Replies to requests are in order, and so are those of the
    /// occurrences of one event, but neither is ordered with the others.
    fn expect(&mut self, line: usize, pattern: String) -> StepResult {
        let id = pattern.split(' ').next().unwrap_or_default().to_owned();
        let is_later = self.action_ids.contains(&id);
        let start = format!("{id} ");
        let got = self.wait(|session| match is_later {
            true => take(&mut session.later, &start),
            false => session.first.pop_front(),
        });
        match got {
            Some(reply) if matches(&pattern, &reply) => Ok(()),
            got => Err(self.mismatch(line, pattern, got)),
        }
    }

    fn mismatch(&self, line: usize, expected: String, got: Option<String>) -> Mismatch {
        let nothing = || format!("no reply within {} s", self.timeout.as_secs_f32());
        let mut received = got.unwrap_or_else(nothing);
        if let Some(reply) = &self.refused_attach {
            received.push_str(&format!(" (attach was answered with {reply})"));
        }
        Mismatch { line, expected, received }
    }

    fn expect_nothing_left(&mut self, line: usize) -> StepResult {
        while let Ok((kind, text)) = self.incoming.try_recv() {
            self.keep(kind, text);
        }
        let left = self.first.pop_front().or_else(|| self.later.pop_front());
        let none = "no other reply".to_owned();
        left.map_or(Ok(()), |reply| Err(self.mismatch(line, none, Some(reply))))
    }

    /// Sends the closing request: replies before its own were not expected.
    fn close(&mut self, last: usize) -> Result<StepResult, RunError> {
        let request = format!("{CLOSING} [{}] print([0])", self.node);
        let expected = format!("{CLOSING} [{}] print(0,[0])", self.node);
        let reply = self.ask(&request)?;
        if reply.as_deref() != Some(expected.as_str()) {
            return Ok(Err(self.mismatch(last, expected, reply)));
        }
        Ok(self.expect_nothing_left(last))
    }

    /// Ends the processes, and deletes what the requests of the case defined. Refusals are of what
    /// the case itself deleted.
    fn undo<'s>(
        &mut self,
        steps: impl Iterator<Item = &'s Step>,
        processes: &mut dyn CaseProcesses,
    ) {
        for number in 1..=self.processes.len() {
            processes.end(number);
        }
        self.timeout = self.timeout.min(Duration::from_secs(1));
        for step in steps {
            let (Step::Request(text) | Step::Next(text)) = step else { continue };
            let text = self.fill_in(text);
            let Ok(request) = parse::request(text.as_bytes(), Dialect::Extended) else { continue };
            let event = request.event.iter().filter_map(|it| it.id);
            for id in event {
                let line = format!("{CLOSING} [{}] delete({})", self.node, id.0);
                let _reply = self.ask(&line);
            }
            for define in request.actions().filter(|it| it.service.as_str() == DEFINE) {
                let [number] = &define.args[..] else { continue };
                let line = format!("{CLOSING} [{}] destroy_user_event({})", self.node, number.expr);
                let _reply = self.ask(&line);
            }
        }
    }
}

/// Removes the first reply that starts so.
fn take(replies: &mut VecDeque<String>, start: &str) -> Option<String> {
    let place = replies.iter().position(|line| line.starts_with(start))?;
    replies.remove(place)
}

const DEFINE: &str = "define_user_event";
