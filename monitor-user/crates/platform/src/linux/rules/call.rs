//! Library calls of this node's processes: the events of their records.
//!
//! In: a call that a tap has recorded. Out: an event, in the values of the language.

use crate::call::{ARRIVAL, RECEIPT};
use crate::tap::{CallRecord, decode::CallValue};
use crate::{events::process_event, status_map::symbol_refusal};
use monitor_event::node_event::{EventKind, NodeEvent};
use monitor_event::outcome::{EventParam, Refusal};
use monitor_event::tap::{Edge, Tap};
use monitor_model::Identity;
use monitor_omis::{Text, Value};
use monitor_symbols::{
    signatures::Signatures, signatures::call::ValueType, signatures::traced_values::TracedValue,
};
use std::path::Path;

/// Descriptions that people add.
const FOLDER: &str = "/etc/monitor/calls";

/// The taps that an event is seen by; none, if that is by trampolines: its rule has them.
pub(super) fn taps(kind: &EventKind) -> Vec<Tap> {
    match kind {
        EventKind::MessageReceived => [ARRIVAL, RECEIPT].map(call_start).into(),
        kind if kind.is_by_trampoline() => Vec::new(),
        kind => kind.tap().cloned().into_iter().collect(),
    }
}

/// The tap at the start of a function.
pub(super) fn call_start(name: &str) -> Tap {
    Tap::new(name, Edge::Start)
}

/// The descriptions of calls that there are.
pub(super) fn signatures() -> Result<Signatures, Refusal> {
    let mut all = Signatures::shipped();
    let folder = Path::new(FOLDER);
    if folder.is_dir() {
        all.add_folder(folder).map_err(|error| symbol_refusal(&error))?;
    }
    Ok(all)
}

/// The values of a call.
pub(super) fn values(call: &CallRecord) -> impl Iterator<Item = Value> {
    call.plan.values.iter().zip(&call.values).map(|(traced, decoded)| value(traced, decoded))
}

/// An event of a call: its parameters are the process and these values.
pub(super) fn call_event(
    call: &CallRecord,
    kind: EventKind,
    values: impl IntoIterator<Item = Value>,
) -> NodeEvent {
    let process = Identity { pid: call.pid, start: call.start };
    NodeEvent {
        thread: Some(call.tid),
        pc: Some(call.pc),
        credentials: call.viewer,
        ..process_event(kind, call.at, process, values.into_iter().map(EventParam::Value))
    }
}

/// A value as the language has it; an empty list where there is none.
fn value(traced: &TracedValue, decoded: &CallValue) -> Value {
    let Some(raw) = decoded.raw else { return Value::List(Vec::new()) };
    match (&traced.kind, &decoded.text) {
        (_, Some(text)) => Value::Text(Text::from(text.clone())),
        (ValueType::Number(width) | ValueType::Named(_, width), None) => {
            let number = width.number(raw);
            match i64::try_from(number) {
                Ok(number) => Value::from(number),
                Err(_) => Value::from(width.truncate(raw)),
            }
        }
        _ => Value::from(raw),
    }
}
