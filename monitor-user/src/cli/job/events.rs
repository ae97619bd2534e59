//! `monitor job events`: a line for each transition of jobs, and for each fault or limit of the
//! node, as its service reports them.
//!
//! In: events of the services `job_changed` and `environment_changed`, and what is kept of the time
//! before. Out: text or lines of JSON, until it is interrupted or the service ends.

use super::args::JobEventsArgs;
use super::environment_event::{self, EnvironmentEvent};
use super::history::{self, JobHistory, parsed, status_text, transition, transition_json};
use super::reader::user;
use crate::cli::client::runtime;
use crate::cli::exit::{Exit, Failure};
use crate::cli::folded_events::NodeEvent;
use crate::cli::output::{self, Output, OutputState, notice};
use crate::cli::run_loop::EndSignals;
use monitor_client::tool::Tool;
use monitor_format::human;
use monitor_jobs::job_log::{JobChange, JobTransition};
use monitor_model::Ns;
use monitor_omis::{Reply, Value};
use serde_json::{Value as Json, json};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A class of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// Transitions of jobs.
    Job,
    /// Faults and limits of the node.
    Environment,
}

monitor_model::names! { EventClass { Job "job", Environment "environment" } }

impl EventClass {
    /// The class of this name; all of them without one.
    pub fn named(name: Option<&str>) -> Vec<Self> {
        let named = name.and_then(Self::from_name);
        named.map_or(Self::ALL.to_vec(), |it| vec![it])
    }

    /// The request that waits for its events, and sends the class and their values.
    pub const fn wait(self) -> &'static str {
        match self {
            Self::Job => {
                "1 [0] job_changed([]): \
                 2 [0] print([\"job\",$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13])"
            }
            Self::Environment => {
                "5 [0] environment_changed([]): \
                 6 [0] print([\"environment\",$1,$2,$3,$4,$5,$6,$7,$8,$9,$10])"
            }
        }
    }

    /// The call that begins to wait.
    pub const fn begin(self) -> &'static str {
        match self {
            Self::Job => "3 [0] enable(1)",
            Self::Environment => "7 [0] enable(5)",
        }
    }

    /// The call that returns what is kept of the last time.
    fn history(self, job: &str, last: Duration) -> String {
        match self {
            Self::Job => format!("4 [0] {}", history::call(job, last)),
            Self::Environment => format!("8 [0] environment_history({:?})", last.as_secs_f64()),
        }
    }
}

/// An event of a class.
pub enum PrintedEvent {
    Job(JobTransition),
    Environment(EnvironmentEvent),
}

/// Prints events until the end.
///
/// # Errors
/// If no service answers, or it refuses the call.
pub fn events(args: &JobEventsArgs) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        let signals = EndSignals::install()?;
        let tool = history::connect(args.daemon.socket.as_deref())?;
        let printer = Printer::new(args);
        let lines = begin(args, &tool, &printer)?;
        printer.follow(lines, signals).await
    })
}

/// Waits for events from now on, and prints those before: in one line, so that none is lost or
/// printed twice.
fn begin(
    args: &JobEventsArgs,
    tool: &Tool,
    printer: &Printer,
) -> Result<UnboundedReceiver<Reply>, Failure> {
    let classes = EventClass::named(args.class.as_deref());
    let (sender, lines) = unbounded_channel();
    for class in &classes {
        let (refused, refusal) = std::sync::mpsc::channel();
        let (sender, mut is_defined) = (sender.clone(), false);
        tool.request(class.wait(), move |line| {
            let reply = parsed(line);
            match reply {
                // The receiver is there until the end.
                Ok(reply) if is_defined => drop(sender.send(reply)),
                reply => drop(refused.send(reply.map(drop))),
            }
            is_defined = true;
        })?;
        refusal.recv().unwrap_or_else(|_| Err(history::lost()))?;
    }
    let begun = classes.iter().map(|class| class.begin().to_owned());
    let kept = args
        .replay
        .iter()
        .flat_map(|last| classes.iter().map(|class| class.history(&printer.job, *last)));
    let calls: Vec<String> = begun.chain(kept).collect();
    let reply = parsed(&tool.request_block(&calls.join("; "))?)?;
    if let Some(last) = args.replay {
        let mut before = Vec::new();
        for (class, answer) in classes.iter().zip(reply.0.iter().skip(classes.len())) {
            before = merged(before, kept_events(*class, &answer.results, last)?);
        }
        for it in &before {
            let _state = printer.print(it)?;
        }
    }
    Ok(lines)
}

/// The events of two classes by time, each class in its order: times since 1970 of one moment
/// differ by what it takes to read two clocks.
fn merged(one: Vec<PrintedEvent>, other: Vec<PrintedEvent>) -> Vec<PrintedEvent> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let next = if b.at() < a.at() { other.next() } else { one.next() };
        all.extend(next);
    }
    all.extend(one);
    all.extend(other);
    all
}

/// What is kept of the last time; what is missing of it is a note.
fn kept_events(
    class: EventClass,
    results: &[Value],
    last: Duration,
) -> Result<Vec<PrintedEvent>, Failure> {
    if class == EventClass::Job {
        let history = JobHistory::from_results(results)?;
        history.gap(last).into_iter().for_each(|gap| notice(&gap));
        return Ok(history.transitions.into_iter().map(PrintedEvent::Job).collect());
    }
    let [_, changes] = results else { return Err(history::unexpected()) };
    let rows = changes.list().unwrap_or_default().chunks(environment_event::VALUES);
    let events: Option<Vec<_>> = rows.map(EnvironmentEvent::from_values).collect();
    let events = events.ok_or_else(history::unexpected)?;
    Ok(events.into_iter().map(PrintedEvent::Environment).collect())
}

impl PrintedEvent {
    /// From the name of its class and its values.
    pub fn from_values(values: &[Value]) -> Option<Self> {
        let (class, values) = values.split_first()?;
        match EventClass::from_name(&class.text()?.to_str_lossy())? {
            EventClass::Job => transition(values).map(Self::Job),
            EventClass::Environment => EnvironmentEvent::from_values(values).map(Self::Environment),
        }
    }

    const fn at(&self) -> Ns {
        match self {
            Self::Job(it) => it.at,
            Self::Environment(it) => it.at,
        }
    }

    /// A line of text.
    fn line(&self) -> String {
        let mut out = String::new();
        human::timestamp(self.at(), &mut out);
        let text = match self {
            Self::Job(it) => text(it),
            Self::Environment(it) => it.text(),
        };
        out + &format!(" {text}\n")
    }

    /// The event as one of a node.
    pub fn of_node(&self, node: &str) -> NodeEvent {
        let (what, text) = match self {
            Self::Job(it) => (what(it), text(it)),
            Self::Environment(it) => (it.what(), it.text()),
        };
        NodeEvent { node: node.to_owned(), at: self.at(), what, text }
    }

    fn is_of(&self, job: &str) -> bool {
        match self {
            Self::Job(it) => it.is_of(job),
            Self::Environment(it) => it.is_of(job),
        }
    }
}

/// Prints the events of a job, or all.
pub struct Printer {
    job: String,
    is_json: bool,
}

impl Printer {
    /// What the arguments select, in their format.
    pub fn new(args: &JobEventsArgs) -> Self {
        Self { job: args.job.clone().unwrap_or_default(), is_json: args.format == "json" }
    }

    /// Whether an event is of the job.
    pub fn selects(&self, it: &PrintedEvent) -> bool {
        it.is_of(&self.job)
    }

    async fn follow(
        &self,
        mut lines: UnboundedReceiver<Reply>,
        mut signals: EndSignals,
    ) -> Result<Exit, Failure> {
        loop {
            let reply = tokio::select! {
                biased;
                end = signals.recv() => return Ok(end.exit()),
                reply = lines.recv() => reply.ok_or_else(history::lost)?,
            };
            let values = reply.0.iter().flat_map(|answer| answer.results.iter());
            for it in values.filter_map(Value::list).filter_map(PrintedEvent::from_values) {
                if self.print(&it)? == OutputState::Closed {
                    return Ok(Exit::Ok);
                }
            }
        }
    }

    fn print(&self, it: &PrintedEvent) -> Result<OutputState, Failure> {
        if self.selects(it) { self.print_of(None, it) } else { Ok(OutputState::Open) }
    }

    /// Prints an event; as JSON with the name of its node, if it is one of many.
    ///
    /// # Errors
    /// The output fails.
    pub fn print_of(&self, node: Option<&str>, it: &PrintedEvent) -> Result<OutputState, Failure> {
        let line = match it {
            PrintedEvent::Job(it) if self.is_json => json_line(transition_json(it), node)?,
            PrintedEvent::Environment(it) if self.is_json => json_line(it.json(), node)?,
            PrintedEvent::Job(_) | PrintedEvent::Environment(_) => it.line(),
        };
        Output::Stream.put(line.as_bytes())
    }

    /// Whether events are printed as JSON.
    pub const fn is_json(&self) -> bool {
        self.is_json
    }
}

fn json_line(mut object: Json, node: Option<&str>) -> Result<String, Failure> {
    if let Json::Object(members) = &mut object {
        let _none = members.insert("schema_version".to_owned(), json!(1));
        if let Some(node) = node {
            let _none = members.insert("node".to_owned(), json!(node));
        }
    }
    output::json(&object)
}

/// What a transition is on any node: the job, the change, and the status of an end.
fn what(it: &JobTransition) -> String {
    let out = format!("{} {}", human::escaped_text(&it.id), it.change.name());
    match it.change {
        JobChange::Failed | JobChange::Ended => {
            format!("{out}: status {}", status_text(it.end))
        }
        _ => out,
    }
}

fn text(it: &JobTransition) -> String {
    let mut out = format!("{} {}", human::escaped_text(&it.id), it.change.name());
    let age = human::duration_text(it.age.0 as f64);
    match it.change {
        JobChange::Created | JobChange::Launching => {
            out += &format!(": {}", it.runtime.name());
            if let Some(pid) = it.launcher {
                out += &format!(", launcher {}", pid.0);
            }
            if let Some(uid) = it.uid {
                out += &format!(", user {}", human::escaped_text(&user(uid)));
            }
        }
        JobChange::Running => out += &format!(": {} ranks", it.ranks),
        JobChange::Stopped | JobChange::ReadyForDebug => {
            out += &it.place.map(|it| format!(": held at {}", it.name())).unwrap_or_default();
        }
        JobChange::Failed if it.ranks == 0 => {
            out += &format!(": status {}, no rank was found", status_text(it.end));
        }
        JobChange::Failed => {
            out += &format!(": rank {}, status {}", rank_text(it), status_text(it.end));
            out += &pid_text(", pid ", it);
        }
        JobChange::DebuggerAttached => {
            out += &format!(": rank {}{}", rank_text(it), pid_text(", traced by ", it));
        }
        JobChange::DebuggerDetached => {}
        JobChange::Ended => out += &format!(": status {}, after {age}", status_text(it.end)),
    }
    out
}

fn rank_text(it: &JobTransition) -> String {
    it.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string())
}

fn pid_text(before: &str, it: &JobTransition) -> String {
    it.pid.map(|pid| format!("{before}{}", pid.0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn it(change: &str, code: i32, signal: i32) -> JobTransition {
        let text = Value::from;
        let values = [text("a\u{1b}"), text("hydra"), text(change), 6.into(), 4_000_000.into()];
        let more: [Value; 5] =
            [code.into(), signal.into(), 2.into(), 1.5.into(), 5_000_000_000_u64.into()];
        let last: [Value; 3] = [3.into(), 7.into(), text("init")];
        transition(&[&values[..], &more[..], &last[..]].concat()).expect("thirteen values")
    }

    #[test]
    fn a_line_has_what_the_transition_is_about() {
        let start = "1970-01-01T00:00:05Z a\\u{1b}";
        let lines = [
            it("created", -1, -1),
            JobTransition { ranks: 0, ..it("failed", 1, 0) },
            it("launching", -1, -1),
            it("stopped", -1, -1),
            it("running", -1, -1),
            it("failed", 137, 9),
            it("debugger-attached", -1, -1),
            it("ended", 137, 9),
        ];
        assert_eq!(what(&lines[5]), "a\\u{1b} failed: status SIGKILL");
        let lines = lines.map(|it| PrintedEvent::Job(it).line());
        assert_eq!(
            lines,
            [
                format!("{start} created: hydra, launcher 6, user 4000000\n"),
                format!("{start} failed: status 1, no rank was found\n"),
                format!("{start} launching: hydra, launcher 6, user 4000000\n"),
                format!("{start} stopped: held at init\n"),
                format!("{start} running: 2 ranks\n"),
                format!("{start} failed: rank 3, status SIGKILL, pid 7\n"),
                format!("{start} debugger-attached: rank 3, traced by 7\n"),
                format!("{start} ended: status SIGKILL, after 1.5s\n"),
            ]
        );
    }

    #[test]
    fn a_line_of_json_has_null_for_what_is_unknown() {
        let it = transition_json(&it("stopped", -1, -1));
        let line = json_line(it, Some("n1")).expect("an object");
        let object: Json = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&object["state"], &object["code"]), (&json!("stopped"), &Json::Null));
        assert_eq!((&object["schema_version"], &object["node"]), (&json!(1), &json!("n1")));
    }
}
