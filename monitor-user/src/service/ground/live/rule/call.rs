//! Library calls of this node's processes: what a record of one tells.
//!
//! In: a call that a tap has seen. Out: an occurrence, in the values of the language.

use super::Ruled;
use crate::backend::rule::told::Held;
use crate::control::Spot;
use crate::event::occurrence::{Occurrence, Topic};
use crate::event::outcome::{Refusal, Told};
use crate::event::tap::Edge;
use crate::event::tap::Tap;
use crate::model::id::Identity;
use crate::omis::{Text, Value};
use crate::probe::Error;
use crate::probe::description::Descriptions;
use crate::probe::description::call::Kind;
use crate::probe::description::told::Told as Meaning;
use crate::probe::tap::heard::Heard;
use crate::probe::tap::{Called, Refusal as TapRefusal};
use crate::service::ground::call::{ARRIVAL, RECEIPT};
use crate::service::ground::{Happening, reading};
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
            Err(TapRefusal::Place(Error::Unloaded { .. })) => return Ok(()),
            Err(other) => return Err(refusal(other)),
        };
        for warning in sites.iter().filter_map(|site| site.pace.warning()) {
            tracing::warn!("{}: {warning}", tap.name);
        }
        Ok(())
    }

    /// A call as an event, or as one that the kernel has run a program at; and what else it means.
    pub(super) fn called(&mut self, it: &Called) -> Vec<Happening> {
        let process = Identity { pid: it.pid, start: it.start };
        let topic = Topic::Called((*it.tap).clone());
        let called = occurrence(it, process, topic, told(process, it));
        if let Some(serial) = it.rider {
            let Some(rule) = self.placement.rider(serial) else {
                self.strays.extend((it.held == Held::Process).then_some(process));
                return Vec::new();
            };
            let ran = Happening::Ran { rule, serial, it: called };
            let spot = Spot { pc: it.pc, sp: it.sp };
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
            let values = values.map(|it| Told::Value(Value::from(it)));
            let told = [Told::Process(process)].into_iter().chain(values).collect();
            all.push(Happening::Occurred(occurrence(it, process, Topic::Received, told)));
        }
        all
    }
}

/// What a tap could not do.
pub(super) fn refusal(why: TapRefusal) -> Refusal {
    match why {
        TapRefusal::Place(error) => Refusal::from(error),
        TapRefusal::Kernel(error) => reading::failed(error),
    }
}

/// The taps that topics need.
pub(super) fn taps(topics: &BTreeSet<Topic>) -> BTreeSet<Tap> {
    let mut taps: BTreeSet<Tap> = topics.iter().filter_map(Topic::tap).cloned().collect();
    if topics.contains(&Topic::Received) {
        taps.extend([ARRIVAL, RECEIPT].map(start));
    }
    taps
}

fn start(name: &str) -> Tap {
    Tap { name: name.to_owned(), edge: Edge::Start }
}

fn occurrence(it: &Called, process: Identity, topic: Topic, told: Arc<[Told]>) -> Occurrence {
    Occurrence {
        process: Some(process),
        thread: Some(it.tid),
        pc: Some(it.pc),
        eyes: it.eyes,
        ..Occurrence::new(topic, it.at, told)
    }
}

/// The descriptions of calls that there are.
pub(super) fn descriptions() -> Result<Descriptions, Refusal> {
    let mut all = Descriptions::shipped();
    let folder = Path::new(FOLDER);
    if folder.is_dir() {
        all.add_folder(folder)?;
    }
    Ok(all)
}

/// What a call tells: the process, then its values.
fn told(process: Identity, called: &Called) -> Arc<[Told]> {
    let values = called.plan.told.iter().zip(&called.values);
    let values = values.map(|(meaning, heard)| Told::Value(value(meaning, heard)));
    [Told::Process(process)].into_iter().chain(values).collect()
}

/// A value as the language has it; an empty list where there is none.
fn value(meaning: &Meaning, heard: &Heard) -> Value {
    let Some(raw) = heard.raw else { return Value::List(Vec::new()) };
    match (&meaning.kind, &heard.text) {
        (_, Some(text)) => Value::Text(Text::from(text.clone())),
        (Kind::Number(width) | Kind::Named(_, width), None) => {
            let number = width.number(raw);
            match i64::try_from(number) {
                Ok(number) => Value::from(number),
                Err(_) => Value::from(width.cut(raw)),
            }
        }
        _ => Value::from(raw),
    }
}
