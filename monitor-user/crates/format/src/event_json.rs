//! Events in JSON: one object per event, in order of time.
//!
//! `time_unix_ns`, `event` (`signal`), `kind` (`generated` or `delivered`), `number`, `name`,
//! `code`, `thread` (if sent to one thread), `sender` (absent if the kernel generated it,
//! and for delivery), `target`, `outcome` (not for delivery).

use super::{Frame, events};
use monitor_model::event::{SampleEvent, SampleEventKind, Signal};
use monitor_model::id::Identity;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The events of a frame.
pub struct EventList<'a>(pub &'a Frame<'a>);

impl Serialize for EventList<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_seq(self.0.events.iter().map(|event| EventObject { frame: self.0, event }))
    }
}

struct EventObject<'a> {
    frame: &'a Frame<'a>,
    event: &'a SampleEvent,
}

impl Serialize for EventObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let time = events::unix_time(&self.frame.rates.sample, self.event);
        map.serialize_entry("time_unix_ns", &time.0)?;
        map.serialize_entry("event", "signal")?;
        match &self.event.kind {
            SampleEventKind::SignalGenerated { signal, sender, outcome } => {
                self.signal(&mut map, "generated", signal)?;
                if let Some(sender) = sender {
                    map.serialize_entry("sender", &self.process(*sender))?;
                }
                map.serialize_entry("outcome", outcome.name())?;
            }
            SampleEventKind::SignalDelivered { signal } => {
                self.signal(&mut map, "delivered", signal)?
            }
        }
        map.serialize_entry("target", &self.process(self.event.target))?;
        map.end()
    }
}

impl EventObject<'_> {
    fn signal<M: SerializeMap>(
        &self,
        map: &mut M,
        kind: &str,
        it: &Signal,
    ) -> Result<(), M::Error> {
        map.serialize_entry("kind", kind)?;
        map.serialize_entry("number", &it.number)?;
        if let Some(name) = it.name() {
            map.serialize_entry("name", &name)?;
        }
        map.serialize_entry("code", &it.code)?;
        it.thread.map_or(Ok(()), |thread| map.serialize_entry("thread", &thread.0))
    }

    fn process(&self, id: Identity) -> ProcessObject<'_> {
        ProcessObject { frame: self.frame, id }
    }
}

/// A process: identity, and command name if known.
struct ProcessObject<'a> {
    frame: &'a Frame<'a>,
    id: Identity,
}

impl Serialize for ProcessObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("pid", &self.id.pid.0)?;
        map.serialize_entry("start_time_ns", &self.id.start.0)?;
        if let Some(name) = self.frame.rates.sample.name_of(self.id) {
            map.serialize_entry("comm", &name)?;
        }
        map.end()
    }
}
