//! Events in JSON: one object per event, in order of time.
//!
//! `time_unix_ns`, `event` (`signal`), `kind` (`generated` or `delivered`), `number`, `name`,
//! `code`, `thread` (if sent to one thread), `sender` (absent if the kernel generated it,
//! and for delivery), `target`, `outcome` (not for delivery).

use super::events;
use monitor_model::{Identity, Ns, Pid, Sample, SampleEvent, SampleEventKind};
use serde::Serialize;
use std::borrow::Cow;

/// An event.
#[derive(Serialize)]
pub struct EventObject<'a> {
    time_unix_ns: Ns,
    event: &'static str,
    kind: &'static str,
    number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<Pid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<ProcessObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    target: ProcessObject<'a>,
}

/// A process: identity, and command name if known.
#[derive(Serialize)]
struct ProcessObject<'a> {
    pid: Pid,
    start_time_ns: Ns,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<Cow<'a, str>>,
}

impl<'a> EventObject<'a> {
    /// An event of a sample.
    pub fn new(sample: &'a Sample, it: &SampleEvent) -> Self {
        let (kind, signal, outcome) = match &it.kind {
            SampleEventKind::SignalGenerated { signal, outcome, .. } => {
                ("generated", signal, Some(outcome.name()))
            }
            SampleEventKind::SignalDelivered { signal } => ("delivered", signal, None),
        };
        Self {
            time_unix_ns: events::unix_time(sample, it),
            event: "signal",
            kind,
            number: signal.number,
            name: signal.name(),
            code: signal.code,
            thread: signal.thread,
            sender: it.sender().map(|sender| process(sample, sender)),
            outcome,
            target: process(sample, it.target),
        }
    }
}

fn process(sample: &Sample, id: Identity) -> ProcessObject<'_> {
    ProcessObject { pid: id.pid, start_time_ns: id.start, comm: sample.name_of(id) }
}
