//! Maps replies and errors of a user worker to the request language.
//!
//! In: what was done, or why not. Out: values, or a refusal with its status. The one place where
//! the errors of `control` get statuses.

use monitor_control::job_command::CommandOutput;
use monitor_control::stack_rows::{ClassRow, MissingStack, NodeRow, StackRows};
use monitor_control::{
    ControlError, LoadedImage, StackFrame, StartedDaemon, ThreadEntry, WorkerReply,
};
use monitor_event::outcome::Refusal;
use monitor_omis::{Status, Text, Value};
use monitor_symbols::{error::SymbolError, report::FailureClass};

/// Error numbers of the system that clients know (errno(3)).
const EPERM: i32 = 1;
const ESRCH: i32 = 3;
const EFAULT: i32 = 14;

/// The results of a request.
pub fn reply_values(done: WorkerReply) -> Vec<Value> {
    match done {
        WorkerReply::Done
        | WorkerReply::Stopped(_)
        | WorkerReply::Started(_)
        | WorkerReply::BreakpointSet(_)
        | WorkerReply::ConditionHolds(_)
        | WorkerReply::Files(_) => Vec::new(),
        WorkerReply::CriuVersion(version) => vec![Value::from(version.as_str())],
        WorkerReply::Bytes(bytes) => vec![list(bytes)],
        WorkerReply::Integers(values) => vec![list(values)],
        WorkerReply::Floats(values) => vec![list(values)],
        WorkerReply::ThreadsStopped(number) => vec![Value::from(number)],
        WorkerReply::Threads(threads) => {
            vec![Value::List(threads.into_iter().map(thread).collect())]
        }
        WorkerReply::Frames(frames) => {
            vec![Value::List(frames.into_iter().flat_map(frame).collect())]
        }
        WorkerReply::Images(images) => {
            vec![Value::List(images.into_iter().flat_map(image).collect())]
        }
        WorkerReply::DaemonsStarted(daemons) => daemon_values(&daemons).into(),
        WorkerReply::RankStacks(rows) => stack_values(rows).into(),
        WorkerReply::CommandEnded(output) => command_values(output).into(),
        // No action of a tool asks for it.
        WorkerReply::RankCalls(_) => Vec::new(),
    }
}

/// Why it was not done.
pub fn control_refusal(error: ControlError) -> Refusal {
    let text = error.to_string();
    let (status, errno) = match &error {
        ControlError::Gone => (Status::GONE, ESRCH),
        ControlError::Denied { .. } => (Status::PERMISSION, EPERM),
        ControlError::AlreadyTraced { .. } => (Status::BUSY, EPERM),
        ControlError::Locked => (Status::LOCKED, 0),
        ControlError::Fault { .. } => (Status::FAULT, EFAULT),
        ControlError::WrongState(_) => (Status::WRONG_STATE, 0),
        ControlError::TimedOut(_) => (Status::TIMEOUT, 0),
        ControlError::Unsupported(_) => (Status::UNSUPPORTED, 0),
        ControlError::Unsafe(_) => (Status::UNSAFE_SITE, 0),
        ControlError::InvalidArgument(_) => (Status::RANGE, 0),
        ControlError::Exhausted(_) => (Status::RESOURCE, 0),
        ControlError::Failed { .. } => (Status::IO, 0),
        ControlError::WorkerLost => (Status::INTERRUPTED, 0),
    };
    let results = match error {
        ControlError::Fault { done, .. } => vec![list(done)],
        _ => Vec::new(),
    };
    Refusal { results, ..Refusal::new(status, text).with_errno(errno) }
}

/// The refusal for an error of the search for code, symbols or message queues.
pub fn symbol_refusal(error: &SymbolError) -> Refusal {
    let status = match error.class() {
        FailureClass::Gone => Status::GONE,
        FailureClass::BadSpec => Status::RANGE,
        FailureClass::Denied => Status::PERMISSION,
        FailureClass::NoFile | FailureClass::NotFound | FailureClass::NotLoaded => {
            Status::NO_SUCH_OBJECT
        }
        FailureClass::Unreadable => Status::IO,
        FailureClass::Unsupported => Status::UNSUPPORTED,
        FailureClass::Unsafe => Status::UNSAFE_SITE,
        FailureClass::Changing => Status::INTERRUPTED,
    };
    Refusal::new(status, error.to_string()).with_errno(error.errno())
}

fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
    Value::List(items.into_iter().map(Into::into).collect())
}

/// Two values, three if names were asked for.
fn frame(it: StackFrame) -> Vec<Value> {
    let name = it.name.map(|name| Value::from(name.as_str()));
    [Some(Value::from(it.pc)), Some(Value::from(it.cfa)), name].into_iter().flatten().collect()
}

/// Its id and its name.
fn thread(it: ThreadEntry) -> Value {
    Value::List(vec![Value::from(it.tid), Value::Text(Text::from(it.name))])
}

/// The eight members of the specification; a member of an archive is a thing of other systems.
fn image(it: LoadedImage) -> Vec<Value> {
    let mut values = vec![Value::Text(Text::from(it.path)), Value::from("")];
    for (start, length) in [it.code, it.data, it.bss] {
        values.extend([Value::from(start), Value::from(length)]);
    }
    values
}

/// The rank and the pid of each, and why some are outside of the step.
fn daemon_values(daemons: &[StartedDaemon]) -> [Value; 2] {
    let rank = |it: &StartedDaemon| it.rank.map_or(Value::from(-1), Value::from);
    let started = daemons.iter().flat_map(|it| [rank(it), Value::from(it.pid)]);
    let outside = daemons.iter().filter_map(|it| it.outside.as_deref());
    [Value::List(started.collect()), list(outside)]
}

/// Exit code, standard output and standard error.
fn command_values(output: CommandOutput) -> [Value; 3] {
    let text = |bytes: Vec<u8>| Value::Text(Text::from(bytes));
    [Value::from(output.code.unwrap_or(-1)), text(output.stdout), text(output.stderr)]
}

/// Classes, nodes, what is missing, and the longest stop in seconds.
fn stack_values(rows: StackRows) -> [Value; 6] {
    let class = |it: ClassRow| {
        let path = list(it.path.iter().map(String::as_str));
        [Value::from(&*it.ranks), Value::from(it.rank), Value::from(it.pid), path]
    };
    let node = |it: NodeRow| {
        let [function, ranks] = [&it.function, &it.ranks].map(|it| Value::from(&**it));
        let numbers = [it.threads, it.ends, u64::from(it.stayed)].map(Value::from);
        let [threads, ends, stayed] = numbers;
        [Value::from(it.depth), function, ranks, threads, ends, stayed]
    };
    let missing = |it: MissingStack| {
        let why = control_refusal(it.why);
        let thread = it.tid.map(|tid| format!("thread {tid}: ")).unwrap_or_default();
        let text = format!("{thread}{}", why.text);
        let pid = it.process.pid.0;
        [Value::from(it.rank), Value::from(pid), why.status.0.into(), Value::from(&*text)]
    };
    [
        Value::List(rows.classes.into_iter().flat_map(class).collect()),
        Value::List(rows.nodes.into_iter().flat_map(node).collect()),
        Value::List(rows.missing.into_iter().flat_map(missing).collect()),
        Value::from(rows.stopped.as_secs_f64()),
        Value::from(u64::try_from(rows.looks).unwrap_or(u64::MAX)),
        Value::from(u64::from(rows.lacks_lines)),
    ]
}
