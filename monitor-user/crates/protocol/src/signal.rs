//! The events of a sample in JSON: one object per event, in order of time.
//!
//! `time_unix_ns`, `event` (`signal`), `kind` (`generated` or `delivered`), `number`, `name`,
//! `code`, `thread` (if sent to one thread), `sender` (absent if the kernel generated it,
//! and for delivery), `outcome` (not for delivery), `target`. A reader ignores unknown events.

use monitor_model::{
    Identity, Ns, Pid, Sample, SampleEvent, SampleEventKind, Signal, SignalOutcome,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// Names of processes.
pub type Names = BTreeMap<Identity, Arc<str>>;

/// An event.
#[derive(Serialize, Deserialize)]
pub struct EventObject<'a> {
    time_unix_ns: Ns,
    event: Cow<'a, str>,
    kind: Cow<'a, str>,
    number: u32,
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    name: Option<String>,
    code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<Pid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<ProcessObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Cow<'a, str>>,
    target: ProcessObject<'a>,
}

/// A process: identity, and command name if known.
#[derive(Serialize, Deserialize)]
struct ProcessObject<'a> {
    pid: Pid,
    start_time_ns: Ns,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<Cow<'a, str>>,
}

impl<'a> EventObject<'a> {
    /// An event of a sample, with its time on the realtime clock.
    pub fn new(sample: &'a Sample, it: &SampleEvent, time_unix_ns: Ns) -> Self {
        let (kind, signal, outcome) = match &it.kind {
            SampleEventKind::SignalGenerated { signal, outcome, .. } => {
                ("generated", signal, Some(outcome.name().into()))
            }
            SampleEventKind::SignalDelivered { signal } => ("delivered", signal, None),
        };
        let process = |id: Identity| {
            let comm = sample.name_of(id);
            ProcessObject { pid: id.pid, start_time_ns: id.start, comm }
        };
        Self {
            time_unix_ns,
            event: "signal".into(),
            kind: kind.into(),
            number: signal.number,
            name: signal.name(),
            code: signal.code,
            thread: signal.thread,
            sender: it.sender().map(process),
            outcome,
            target: process(it.target),
        }
    }
}

/// Decodes an event, whose time is on the realtime clock; adds the names of its processes.
pub fn event(value: &Value, names: &mut Names) -> Option<SampleEvent> {
    let json = EventObject::deserialize(value).ok().filter(|json| json.event == "signal")?;
    let EventObject { number, code, thread, .. } = json;
    let signal = Signal { number, code, thread };
    let mut identity = |process: ProcessObject<'_>| {
        let id = Identity { pid: process.pid, start: process.start_time_ns };
        names.extend(process.comm.map(|comm| (id, comm.into())));
        id
    };
    let kind = match &*json.kind {
        "generated" => {
            let outcome = json.outcome.as_deref().and_then(SignalOutcome::from_name)?;
            let sender = json.sender.map(&mut identity);
            SampleEventKind::SignalGenerated { signal, sender, outcome }
        }
        "delivered" => SampleEventKind::SignalDelivered { signal },
        _ => return None,
    };
    Some(SampleEvent { at: json.time_unix_ns, target: identity(json.target), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_newer_version_are_ignored() {
        let json = serde_json::json!({"time_unix_ns": 1, "event": "call", "kind": "entered"});
        assert_eq!(event(&json, &mut Names::new()), None);
    }
}
