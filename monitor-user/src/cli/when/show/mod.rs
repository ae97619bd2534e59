//! Output of `monitor when`: events and the final summary, as text or as JSON.
//!
//! In: calls and records of rule programs. Out: events with symbolic names, and the summary;
//! `text` and `json` format them.

mod json;
mod text;

use monitor_event::tap::Edge;
use monitor_model::event::Signal;
use monitor_model::id::{Ns, Pid};
use monitor_platform::tap::CallRecord;
use monitor_symbols::resolve;
use monitor_symbols::signatures::call::ValueType;
use monitor_symbols::signatures::traced_values::RESULT;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenForm {
    /// Lines and a table.
    Text,
    /// One JSON object per line.
    Json,
}

/// An event to print.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownEvent {
    /// Time on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The process.
    pub pid: Pid,
    /// Its command name; absent if it exited before the name was read.
    pub comm: Option<String>,
    /// What happened.
    pub kind: ShownEventKind,
}

/// The kinds of events.
#[derive(Clone, Debug, PartialEq)]
pub enum ShownEventKind {
    /// A function was called or returned.
    Call { edge: Edge, name: String, values: Vec<ShownValue> },
    /// A signal was delivered.
    Signal(Signal),
    /// A program was executed.
    Exec,
    /// The process exited with this status or was killed by this signal.
    End { status: u64, signal: Option<Signal> },
}

/// An argument or result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownValue {
    /// Name of the parameter, or `RESULT`.
    pub name: String,
    /// The value in C syntax.
    pub shown: String,
    /// The value, if it is a known number.
    pub number: Option<i128>,
    /// The value, if it is a known text.
    pub text: Option<Vec<u8>>,
}

impl ShownEventKind {
    /// The result of a function that returned.
    fn result(&self) -> Option<&ShownValue> {
        match self {
            Self::Call { edge: Edge::End, values, .. } => {
                values.first().filter(|it| it.name == RESULT)
            }
            _ => None,
        }
    }
}

/// A row of the summary.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    /// The event.
    pub what: String,
    /// Number of occurrences.
    pub count: u64,
    /// Median and 99th percentile of the duration of calls.
    pub times: Option<[Ns; 2]>,
}

/// Formats events; caches names of processes and addresses.
pub struct EventFormatter {
    form: WhenForm,
    begin: Ns,
    /// Difference between the wall clock and the boot clock.
    since_1970: Ns,
    comms: HashMap<Pid, Option<String>>,
    /// Addresses of named variables, by process.
    addresses: HashMap<Pid, HashMap<String, u64>>,
}

impl EventFormatter {
    /// Text shows times since `begin`, JSON since 1970, which was `since_1970` before boot.
    pub fn new(form: WhenForm, begin: Ns, since_1970: Ns) -> Self {
        Self { form, begin, since_1970, comms: HashMap::new(), addresses: HashMap::new() }
    }

    /// Formats an event as one line.
    pub fn line(&self, it: &ShownEvent) -> String {
        match self.form {
            WhenForm::Text => text::line(it, self.begin),
            WhenForm::Json => json::line(it, Ns(self.since_1970.0 + it.at.0)),
        }
    }

    /// Formats the summary: counts and lost records.
    pub fn summary(&self, rows: &[SummaryRow], n_lost: u64) -> String {
        match self.form {
            WhenForm::Text => text::table(rows),
            WhenForm::Json => json::summary(rows, n_lost),
        }
    }

    fn event(&mut self, at: Ns, pid: Pid, what: ShownEventKind) -> ShownEvent {
        let comm = self.comms.entry(pid).or_insert_with(|| {
            let text = std::fs::read_to_string(format!("/proc/{}/comm", pid.0));
            text.ok().map(|text| text.trim_end().to_owned())
        });
        ShownEvent { at, pid, comm: comm.clone(), kind: what }
    }

    /// A call or its return.
    pub fn call(&mut self, it: &CallRecord) -> ShownEvent {
        let values = it.plan.values.iter().zip(&it.values).map(|(spec, traced)| {
            let named = match (&spec.kind, traced.raw) {
                (ValueType::Named(names, width), Some(raw)) => {
                    let addresses = self.addresses.entry(it.pid).or_insert_with(|| {
                        let names: HashSet<&str> = names.variables().collect();
                        let found =
                            resolve::variables(Path::new("/proc"), it.pid, &names, |_| true);
                        // Without symbols the handles are shown as addresses.
                        found.unwrap_or_default()
                    });
                    names.address_name(width.truncate(raw), addresses).map(str::to_owned)
                }
                _ => None,
            };
            ShownValue {
                name: spec.name.clone(),
                shown: named.unwrap_or_else(|| traced.to_text(spec)),
                number: traced.raw.and_then(|raw| spec.number(raw)),
                text: traced.text.clone(),
            }
        });
        let (edge, name) = (it.tap.edge, it.tap.name.clone());
        let what = ShownEventKind::Call { edge, name, values: values.collect() };
        self.event(it.at, it.pid, what)
    }

    /// A delivered signal.
    pub fn signal(&mut self, at: Ns, pid: Pid, number: u64) -> ShownEvent {
        self.event(at, pid, ShownEventKind::Signal(signal(number)))
    }

    /// An executed program. Cached names of the process become invalid.
    pub fn exec(&mut self, at: Ns, pid: Pid) -> ShownEvent {
        _ = self.comms.remove(&pid);
        _ = self.addresses.remove(&pid);
        self.event(at, pid, ShownEventKind::Exec)
    }

    /// An exited process, with its wait(2) status.
    pub fn end(&mut self, at: Ns, pid: Pid, code: u64) -> ShownEvent {
        let signal = Some(code & 0x7f).filter(|number| *number != 0).map(signal);
        self.event(at, pid, ShownEventKind::End { status: code >> 8 & 0xff, signal })
    }
}

fn signal(number: u64) -> Signal {
    Signal { number: u32::try_from(number).unwrap_or(0), code: 0, thread: None }
}
