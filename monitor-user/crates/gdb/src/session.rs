//! A session of the request language about one process.
//!
//! In: calls of services, one at a time. Out: their results, or the refusal; and notices of events,
//! on the thread that reads the socket. Knows nothing of gdb.

use monitor_client::tool::Tool;
use monitor_omis::{Answer, Reply, Status, Value, parse};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;

/// Why a call was not carried out.
#[derive(Clone, Debug, Error)]
pub enum CallError {
    /// The monitor refused it.
    #[error("{text}")]
    Refused {
        /// The status.
        status: Status,
        /// What failed, why, and what to do.
        text: String,
        /// Results all the same, such as the bytes before an unmapped page.
        results: Vec<Value>,
    },
    /// The connection has ended.
    #[error("{0}")]
    Lost(String),
}

/// What a session reports by itself.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The actions of an event have run, or an event has failed.
    Event(Reply),
    /// The monitor has closed the connection.
    Closed,
}

type Notify = Arc<dyn Fn(Notice) + Send + Sync>;
/// Why events have failed, by the number of their request.
type Failures = Arc<Mutex<BTreeMap<u64, (Status, String)>>>;

/// The session.
pub struct Session {
    tool: Tool,
    node: u32,
    pid: u32,
    next: Cell<u64>,
    notify: Notify,
    failures: Failures,
}

/// Reports the end of the connection when the reader drops its callbacks.
struct EndGuard(Notify);

impl Drop for EndGuard {
    fn drop(&mut self) {
        (self.0)(Notice::Closed);
    }
}

impl Session {
    /// Connects to the monitor of this node and attaches a process.
    ///
    /// # Errors
    /// If no monitor answers, or it refuses the process.
    pub fn connect(socket: Option<&Path>, pid: u32, notify: Notify) -> Result<Self, CallError> {
        let tool = socket.map_or_else(Tool::connect, Tool::connect_to).map_err(lost)?;
        let failures = Failures::default();
        let (guard, noted) = (EndGuard(Arc::clone(&notify)), Arc::clone(&failures));
        tool.on_unrouted(move |line| {
            let Some(reply) = read(line) else { return };
            note_failure(&noted, &reply);
            (guard.0)(Notice::Event(reply));
        });
        let mut session = Self { tool, node: 0, pid, next: Cell::new(1), notify, failures };
        session.node = session.own_node()?;
        let _attached = session.ask(&format!("attach([{pid}])"))?;
        Ok(session)
    }

    /// The process.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// The token of a thread of the process.
    pub fn thread(&self, tid: u32) -> String {
        format!("t_{}_{tid}", self.node)
    }

    /// Calls a service; returns the results after the status.
    ///
    /// # Errors
    /// If the monitor refuses it or has gone.
    pub fn ask(&self, call: &str) -> Result<Vec<Value>, CallError> {
        self.ask_on(&self.node.to_string(), call)
    }

    /// Calls a service on these nodes.
    fn ask_on(&self, nodes: &str, call: &str) -> Result<Vec<Value>, CallError> {
        let line = format!("{} [{nodes}] {call}", self.number());
        let reply = self.tool.request_block(&line).map_err(lost)?;
        first_results(read(&reply).ok_or_else(|| CallError::Lost(format!("reply: {reply}")))?)
    }

    /// Stores a request that stops all threads when its event occurs, and enables it; the last
    /// action prints these variables. Returns its number. Its occurrences are notices.
    ///
    /// # Errors
    /// If the monitor refuses the event.
    pub fn watch(&self, event: &str, printed: &str) -> Result<u64, CallError> {
        let stop = format!("stop_threads([{}])", self.pid);
        let request = self.define(event, &[&stop, printed])?;
        self.enable(request).inspect_err(|_| self.delete(request)).map(|()| request)
    }

    /// Stores a request with these actions; returns its number, which its last action prints too.
    ///
    /// # Errors
    /// If the monitor refuses the event.
    pub fn define(&self, event: &str, actions: &[&str]) -> Result<u64, CallError> {
        let (request, node) = (self.number(), self.node);
        let actions: Vec<String> = actions
            .iter()
            .map(|action| {
                let action = action.replace("REQUEST", &request.to_string());
                format!("{} [{node}] {action}", self.number())
            })
            .collect();
        let line = format!("{request} [{node}] {event}: {}", actions.join("; "));
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let notify = Arc::clone(&self.notify);
        let mut first = Some(sender);
        let sent = self.tool.request(&line, move |line| {
            let Some(reply) = read(line) else { return };
            match first.take() {
                Some(sender) => _ = sender.try_send(reply),
                None => notify(Notice::Event(reply)),
            }
        });
        sent.map_err(lost)?;
        let reply = receiver.recv().map_err(|_| CallError::Lost(CLOSED.to_owned()))?;
        let _none = first_results(reply)?;
        Ok(request)
    }

    /// Enables a stored request: a command to a thread has begun then.
    ///
    /// # Errors
    /// If there is no such request, or the command is refused.
    pub fn enable(&self, request: u64) -> Result<(), CallError> {
        self.ask(&format!("enable({request})")).map(drop)
    }

    /// Starts a stored command again.
    ///
    /// # Errors
    /// If there is no such request.
    pub fn enable_again(&self, request: u64) -> Result<(), CallError> {
        let _disabled = self.ask(&format!("disable({request})"))?;
        self.enable(request)
    }

    /// Deletes a stored request.
    pub fn delete(&self, request: u64) {
        // It is gone, or the connection is.
        let _gone = self.ask(&format!("delete({request})"));
        let _failed = self.take_failure(request);
    }

    /// Takes the status and the reason with which the event of a stored request has failed, if it
    /// has.
    pub fn take_failure(&self, request: u64) -> Option<(Status, String)> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.remove(&request)
    }

    /// The number of this node: that of its name, if there are several.
    fn own_node(&self) -> Result<u32, CallError> {
        let nodes = self.ask_on("", "list_nodes()")?;
        let nodes = nodes.first().and_then(Value::list).unwrap_or_default();
        let uname = rustix::system::uname();
        let name = uname.nodename().to_bytes();
        let named = |pair: &&&[Value]| {
            pair.get(1).and_then(Value::text).is_some_and(|it| it.as_bytes() == name)
        };
        let pairs: Vec<&[Value]> = nodes.chunks(2).collect();
        let own = pairs.iter().find(named).or(pairs.first());
        let number = own.and_then(|pair| pair.first()).and_then(Value::integer);
        number.ok_or_else(|| CallError::Lost("the monitor lists no nodes".to_owned()))
    }

    fn number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }
}

impl CallError {
    /// The status of a refusal.
    pub const fn status(&self) -> Option<Status> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Lost(_) => None,
        }
    }
}

const CLOSED: &str = "the monitor has closed the connection";

/// The results of the first answer.
fn first_results(reply: Reply) -> Result<Vec<Value>, CallError> {
    let answer = reply.0.into_iter().next();
    results(answer.ok_or_else(|| CallError::Lost("an empty reply".to_owned()))?)
}

/// The results of an answer, or its refusal: `(status, errno, text, results...)`.
fn results(answer: Answer) -> Result<Vec<Value>, CallError> {
    let Answer { service, status, results, .. } = answer;
    if status.is_success() {
        return Ok(results);
    }
    let is_reason = |it: &&Value| it.text().is_some();
    let text = results.iter().find(is_reason).and_then(Value::text);
    let text = text.map_or_else(
        || format!("{service}: status {}", status.0),
        |it| it.to_str_lossy().into_owned(),
    );
    Err(CallError::Refused { status, text, results })
}

/// The number, the status and the reason of a reply that is a failure.
pub fn failure(reply: &Reply) -> Option<(u64, Status, String)> {
    let answer = reply.0.first().filter(|it| !it.status.is_success())?;
    let text = answer.results.iter().find_map(Value::text);
    let text = text.map_or_else(String::new, |it| it.to_str_lossy().into_owned());
    Some((answer.id.0.get()?, answer.status, text))
}

fn read(line: &str) -> Option<Reply> {
    parse::reply(line.as_bytes()).ok()
}

/// An answer of an event itself, with a failure: it did not occur.
fn note_failure(failures: &Failures, reply: &Reply) {
    let Some((request, status, text)) = failure(reply) else { return };
    let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
    let _before = failures.insert(request, (status, text));
}

fn lost(error: impl ToString) -> CallError {
    CallError::Lost(error.to_string())
}
