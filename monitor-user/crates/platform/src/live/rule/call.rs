//! Library calls of this node's processes: what a record of one tells.
//!
//! In: a call that a tap has seen. Out: an occurrence, in the values of the language.

use super::Ruled;
use crate::answer::symbol_refusal;
use crate::call::{ARRIVAL, RECEIPT};
use crate::tap::heard::Heard;
use crate::tap::{Called, Refusal as TapRefusal};
use crate::{Happening, reading};
use monitor_backend::rule::rule_record::StopScope;
use monitor_control::CodePos;
use monitor_event::node_event::{EventKind, NodeEvent};
use monitor_event::outcome::{EventParam, Refusal};
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_model::id::Identity;
use monitor_omis::{Text, Value};
use monitor_symbols::SymbolError;
use monitor_symbols::signatures::Signatures;
use monitor_symbols::signatures::call::ValueType;
use monitor_symbols::signatures::traced_values::TracedValue as Meaning;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Descriptions that people add.
const FOLDER: &str = "/etc/monitor/calls";

impl Ruled {
    /// Whether a call can be seen in a process.
    pub(crate) fn has(&self, tap: &Tap, id: Identity) -> Result<(), Refusal> {
        let sites = match self.taps.check(tap, id.pid) {
            Ok(sites) => sites,
            Err(TapRefusal::Place(SymbolError::NotLoaded { .. })) => return Ok(()),
            Err(other) => return Err(refusal(other)),
        };
        for warning in sites.iter().filter_map(|site| site.cost.warning()) {
            tracing::warn!("{}: {warning}", tap.name);
        }
        Ok(())
    }

    /// A call as an event, or as one that the kernel has run a program at; and what else it means.
    pub(super) fn called(&mut self, it: &Called) -> Vec<Happening> {
        let process = Identity { pid: it.pid, start: it.start };
        let topic = EventKind::Called((*it.tap).clone());
        let called = occurrence(it, process, topic, told(process, it));
        if let Some(serial) = it.rider {
            let Some(rule) = self.placement.rider(serial) else {
                self.strays.extend((it.held == StopScope::Process).then_some(process));
                return Vec::new();
            };
            let ran = Happening::Ran { rule, serial, it: called };
            let spot = CodePos { pc: it.pc, sp: it.sp };
            return self.unless_held(ran, (it.held, Some(spot))).into_iter().collect();
        }
        let mut all = vec![Happening::Occurred(called)];
        let Some(marked) = &mut self.marked else { return all };
        if *it.tap == start(ARRIVAL) {
            all.extend(marked.arrived(it).then_some(Happening::Lost(1)));
        } else if *it.tap == start(RECEIPT)
            && let Some(message) = marked.received(it)
        {
            let values = [message.sender, message.tag, message.mark];
            let values = values.map(|it| EventParam::Value(Value::from(it)));
            let told = [EventParam::Process(process)].into_iter().chain(values).collect();
            all.push(Happening::Occurred(occurrence(
                it,
                process,
                EventKind::MessageReceived,
                told,
            )));
        }
        all
    }
}

/// What a tap could not do.
pub(super) fn refusal(why: TapRefusal) -> Refusal {
    match why {
        TapRefusal::Place(error) => symbol_refusal(&error),
        TapRefusal::Kernel(error) => reading::failed(error),
    }
}

/// The taps that topics need.
pub(super) fn taps(topics: &BTreeSet<EventKind>) -> BTreeSet<Tap> {
    let mut taps: BTreeSet<Tap> = topics.iter().filter_map(EventKind::tap).cloned().collect();
    if topics.contains(&EventKind::MessageReceived) {
        taps.extend([ARRIVAL, RECEIPT].map(start));
    }
    taps
}

fn start(name: &str) -> Tap {
    Tap { name: name.to_owned(), edge: Edge::Start }
}

fn occurrence(
    it: &Called,
    process: Identity,
    topic: EventKind,
    told: Arc<[EventParam]>,
) -> NodeEvent {
    NodeEvent {
        process: Some(process),
        thread: Some(it.tid),
        pc: Some(it.pc),
        credentials: it.eyes,
        ..NodeEvent::new(topic, it.at, told)
    }
}

/// The descriptions of calls that there are.
pub(super) fn descriptions() -> Result<Signatures, Refusal> {
    let mut all = Signatures::shipped();
    let folder = Path::new(FOLDER);
    if folder.is_dir() {
        all.add_folder(folder).map_err(|error| symbol_refusal(&error))?;
    }
    Ok(all)
}

/// What a call tells: the process, then its values.
fn told(process: Identity, called: &Called) -> Arc<[EventParam]> {
    let values = called.plan.told.iter().zip(&called.values);
    let values = values.map(|(meaning, heard)| EventParam::Value(value(meaning, heard)));
    [EventParam::Process(process)].into_iter().chain(values).collect()
}

/// A value as the language has it; an empty list where there is none.
fn value(meaning: &Meaning, heard: &Heard) -> Value {
    let Some(raw) = heard.raw else { return Value::List(Vec::new()) };
    match (&meaning.kind, &heard.text) {
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
