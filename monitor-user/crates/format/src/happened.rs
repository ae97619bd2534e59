//! Events in JSON: one object each, in the order in which they happened.
//!
//! `time_unix_ns`, `event` (`signal`), `kind` (`generated` or `delivered`), `number`, `name`,
//! `code`, `thread` (if it is for one), `sender` (absent where the kernel made it, and at
//! delivery), `target`, `outcome` (not at delivery).

use super::{Frame, events};
use monitor_model::event::{Event, Signal, What};
use monitor_model::id::Identity;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The events of a frame.
pub struct Events<'a>(pub &'a Frame<'a>);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.events.iter().map(|event| One { frame: self.0, event }))
    }
}

struct One<'a> {
    frame: &'a Frame<'a>,
    event: &'a Event,
}

impl Serialize for One<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let time = events::unix(&self.frame.rates.sample, self.event);
        map.serialize_entry("time_unix_ns", &time.0)?;
        map.serialize_entry("event", "signal")?;
        match &self.event.what {
            What::SignalGenerated { signal, sender, outcome } => {
                self.signal(&mut map, "generated", signal)?;
                if let Some(sender) = sender {
                    map.serialize_entry("sender", &self.who(*sender))?;
                }
                map.serialize_entry("outcome", outcome.name())?;
            }
            What::SignalDelivered { signal } => self.signal(&mut map, "delivered", signal)?,
        }
        map.serialize_entry("target", &self.who(self.event.target))?;
        map.end()
    }
}

impl One<'_> {
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

    fn who(&self, id: Identity) -> Who<'_> {
        Who { frame: self.frame, id }
    }
}

/// A process: its identity, and its name if it is known.
struct Who<'a> {
    frame: &'a Frame<'a>,
    id: Identity,
}

impl Serialize for Who<'_> {
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
