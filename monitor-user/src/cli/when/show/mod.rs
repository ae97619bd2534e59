//! What `when` shows: what happened, in words of its own, for people or for programs.
//!
//! In: calls and records of lists. Out: events with names for what can be named, and the summary
//! that closes them; `people` and `json` make text of them.

mod json;
mod people;

use monitor_event::tap::Edge;
use monitor_model::event::Signal;
use monitor_model::id::{Ns, Pid};
use monitor_platform::tap::Called;
use monitor_symbols::description::call::Kind;
use monitor_symbols::description::told::RESULT;
use monitor_symbols::find;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// For whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines, and a table.
    People,
    /// An object on each line.
    Json,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// In which process.
    pub pid: Pid,
    /// What its command is called; absent, if it had ended before anybody could look.
    pub comm: Option<String>,
    /// What it was.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A function was called, or has returned.
    Call { edge: Edge, name: String, values: Vec<Value> },
    /// A signal was taken.
    Signal(Signal),
    /// A program was executed.
    Exec,
    /// The process ended, with this status or by this signal.
    End { status: u64, signal: Option<Signal> },
}

/// A value of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The parameter, or the result.
    pub name: String,
    /// As C would write it.
    pub shown: String,
    /// The number, if it is one and is known.
    pub number: Option<i128>,
    /// The text, if it is one and is known.
    pub text: Option<Vec<u8>>,
}

impl What {
    /// What a function has given.
    fn result(&self) -> Option<&Value> {
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
pub struct Row {
    /// What happened.
    pub what: String,
    /// How often.
    pub count: u64,
    /// How long half of the calls took at most, and 99 of 100.
    pub times: Option<[Ns; 2]>,
}

/// What is known of processes that were shown before.
pub struct Show {
    form: Form,
    begin: Ns,
    /// Between the clock of events and that of the wall.
    since_1970: Ns,
    comms: HashMap<Pid, Option<String>>,
    /// Addresses that have names, by process.
    addresses: HashMap<Pid, HashMap<String, u64>>,
}

impl Show {
    /// Times are told since then, or since 1970, which was so long before the machine began.
    pub fn new(form: Form, begin: Ns, since_1970: Ns) -> Self {
        Self { form, begin, since_1970, comms: HashMap::new(), addresses: HashMap::new() }
    }

    /// A line.
    pub fn line(&self, it: &Event) -> String {
        match self.form {
            Form::People => people::line(it, self.begin),
            Form::Json => json::line(it, Ns(self.since_1970.0 + it.at.0)),
        }
    }

    /// What closes it: counts, and records that were lost.
    pub fn summary(&self, rows: &[Row], n_lost: u64) -> String {
        match self.form {
            Form::People => people::table(rows),
            Form::Json => json::summary(rows, n_lost),
        }
    }

    fn event(&mut self, at: Ns, pid: Pid, what: What) -> Event {
        let comm = self.comms.entry(pid).or_insert_with(|| {
            let text = std::fs::read_to_string(format!("/proc/{}/comm", pid.0));
            text.ok().map(|text| text.trim_end().to_owned())
        });
        Event { at, pid, comm: comm.clone(), what }
    }

    /// A call, or its return.
    pub fn call(&mut self, it: &Called) -> Event {
        let values = it.plan.told.iter().zip(&it.values).map(|(told, heard)| {
            let named = match (&told.kind, heard.raw) {
                (Kind::Named(names, width), Some(raw)) => {
                    let addresses = self.addresses.entry(it.pid).or_insert_with(|| {
                        let names: HashSet<&str> = names.variables().collect();
                        let found = find::variables(Path::new("/proc"), it.pid, &names, |_| true);
                        // Without them the handles are shown as the addresses that they are.
                        found.unwrap_or_default()
                    });
                    names.of_address(width.cut(raw), addresses).map(str::to_owned)
                }
                _ => None,
            };
            Value {
                name: told.name.clone(),
                shown: named.unwrap_or_else(|| heard.shown(told)),
                number: heard.raw.and_then(|raw| told.number(raw)),
                text: heard.text.clone(),
            }
        });
        let (edge, name) = (it.tap.edge, it.tap.name.clone());
        let what = What::Call { edge, name, values: values.collect() };
        self.event(it.at, it.pid, what)
    }

    /// A signal that was taken.
    pub fn signal(&mut self, at: Ns, pid: Pid, number: u64) -> Event {
        self.event(at, pid, What::Signal(signal(number)))
    }

    /// A program that was executed. Another one is in the process: what was known of it does not
    /// hold.
    pub fn exec(&mut self, at: Ns, pid: Pid) -> Event {
        _ = self.comms.remove(&pid);
        _ = self.addresses.remove(&pid);
        self.event(at, pid, What::Exec)
    }

    /// A process that ended, with what wait(2) tells.
    pub fn end(&mut self, at: Ns, pid: Pid, code: u64) -> Event {
        let signal = Some(code & 0x7f).filter(|number| *number != 0).map(signal);
        self.event(at, pid, What::End { status: code >> 8 & 0xff, signal })
    }
}

fn signal(number: u64) -> Signal {
    Signal { number: u32::try_from(number).unwrap_or(0), code: 0, thread: None }
}
