//! Decodes the events of a sample from their JSON, as the crate `monitor_format` writes them.
//!
//! In: the objects of a sample. Out: events, and the names of their processes. Unknown events are
//! ignored.

use monitor_model::{Identity, Ns, Pid, SampleEvent, SampleEventKind, Signal, SignalOutcome};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Names of processes.
pub type Names = BTreeMap<Identity, Arc<str>>;

#[derive(Deserialize)]
struct EventJson {
    time_unix_ns: u64,
    event: String,
    kind: String,
    number: u32,
    code: i32,
    thread: Option<u32>,
    sender: Option<ProcessJson>,
    target: ProcessJson,
    outcome: Option<String>,
}

#[derive(Deserialize)]
struct ProcessJson {
    pid: u32,
    start_time_ns: u64,
    comm: Option<String>,
}

/// Decodes an event, whose time is on the realtime clock; adds the names of its processes.
pub fn event(value: &Value, names: &mut Names) -> Option<SampleEvent> {
    let json = EventJson::deserialize(value).ok().filter(|json| json.event == "signal")?;
    let EventJson { number, code, thread, .. } = json;
    let signal = Signal { number, code, thread: thread.map(Pid) };
    let mut identity = |process: ProcessJson| {
        let id = Identity { pid: Pid(process.pid), start: Ns(process.start_time_ns) };
        names.extend(process.comm.map(|comm| (id, comm.into())));
        id
    };
    let kind = match json.kind.as_str() {
        "generated" => {
            let outcome = json.outcome.as_deref().and_then(SignalOutcome::from_name)?;
            let sender = json.sender.map(&mut identity);
            SampleEventKind::SignalGenerated { signal, sender, outcome }
        }
        "delivered" => SampleEventKind::SignalDelivered { signal },
        _ => return None,
    };
    Some(SampleEvent { at: Ns(json.time_unix_ns), target: identity(json.target), kind })
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
