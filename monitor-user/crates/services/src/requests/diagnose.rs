//! Unusual events: what static probes met is counted, and what is to be told is told.
//!
//! In: the book of `service/diag`, the ground. Out: occurrences of `diag_traced`, lines of the log.
//! A process that calls MPI_Finalize is told of then, and not when it ends.

use super::{Machine, Turn};
use crate::diag::{Event, Threshold};
use monitor_event::occurrence::{EventKind, NodeEvent};
use monitor_event::outcome::Told;
use monitor_event::right::SessionId;
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_format::diagnosis::{FORMS, Form};
use monitor_model::diagnosis::Diagnosis;
use monitor_model::id::{Identity, Ns};
use monitor_omis::{Text, Value};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Machine {
    /// Tells what is to be told now.
    pub(super) fn diagnose(&mut self, turn: &mut Turn<'_>) {
        self.look_at_probes(turn);
        if self.diagnoses.looks(turn.now) {
            self.take_probes(turn);
        }
        for (session, it) in self.diagnoses.told(turn.now) {
            self.trace(session, it, turn);
        }
    }

    /// The end of its process is part of what an event tells: nothing of it may come later.
    pub(super) fn last_of(&mut self, id: Identity, turn: &mut Turn<'_>) {
        if self.diagnoses.looked_at.contains_key(&id) {
            self.take_probes(turn);
        }
        self.diagnoses.ended(id, turn.now);
    }

    /// A session has gone: the log hears the rest.
    pub(super) fn last_words(&mut self, session: SessionId, turn: &Turn<'_>) {
        for it in self.diagnoses.leave(session, turn.now) {
            self.log(&self.whole(it, turn));
        }
    }

    /// Whether this is the call with which a process of MPI ends; then what is left is told.
    pub(super) fn finalized(&mut self, it: &NodeEvent, turn: &mut Turn<'_>) {
        let Some(id) = it.process.filter(|_| it.topic == finalize()) else { return };
        if self.diagnoses.looked_at.contains_key(&id) {
            self.take_probes(turn);
        }
        self.diagnoses.end(id, turn.now);
    }

    /// What is looked out for on behalf of the book.
    pub(super) fn diagnosed_topics(&self) -> Option<EventKind> {
        (!self.finalizing.is_empty()).then(finalize)
    }

    /// Tells the ground whose probes matter, if that has changed.
    fn look_at_probes(&mut self, turn: &mut Turn<'_>) {
        let mut wanted = BTreeSet::new();
        for (session, sight) in &self.diagnoses.sights {
            wanted.extend(sight.these.iter().copied());
            let seat = self.seats.get(session).filter(|_| sight.attached);
            wanted.extend(seat.into_iter().flat_map(|seat| seat.session.scope.members()));
        }
        if !wanted.iter().eq(self.diagnoses.looked_at.keys()) {
            turn.ground.count(&wanted);
            self.diagnoses.looked_at.retain(|id, _| wanted.contains(id));
            for id in wanted {
                self.diagnoses.looked_at.entry(id).or_insert_with(|| turn.ground.whose(id));
            }
        }
        self.look_for_ends(turn);
    }

    /// Finds out who calls MPI_Finalize: when its probes are looked at, and, since it may execute
    /// another program then, again when something was counted for it first.
    fn look_for_ends(&mut self, turn: &mut Turn<'_>) {
        let counted = self.diagnoses.processes().map(|id| (id, true));
        let looked_at = self.diagnoses.looked_at.keys().map(|id| (*id, false));
        let known: BTreeSet<(Identity, bool)> = counted.chain(looked_at).collect();
        if known == self.asked {
            return;
        }
        let topic = finalize();
        let tap = topic.tap().expect("it is a call");
        let new: BTreeSet<Identity> = known.difference(&self.asked).map(|(id, _)| *id).collect();
        self.finalizing.retain(|id| known.iter().any(|(other, _)| other == id));
        self.finalizing.extend(new.into_iter().filter(|id| turn.ground.has(tap, *id).is_ok()));
        self.asked = known;
        self.is_stale = true;
    }

    /// Counts what static probes met, for each session that looks at them.
    fn take_probes(&mut self, turn: &mut Turn<'_>) {
        for (id, what, times) in turn.ground.met() {
            if !self.diagnoses.knows(id) {
                // It may have begun another program since it was looked at first.
                let now = turn.ground.whose(id);
                let first = self.diagnoses.looked_at.get(&id).filter(|_| now.rank.is_none());
                let whose = first.cloned().unwrap_or(now);
                self.diagnoses.learn(id, whose);
            }
            let delay = Ns(what.delay_seconds.saturating_mul(1_000_000_000));
            let event = Event {
                name: what.name.as_str().into(),
                message: what.message.as_str().into(),
                threshold: Threshold { count: what.count, delay },
            };
            for session in self.watching(id) {
                let counted = self.diagnoses.count((session, Some(id)), &event, times, turn.now);
                if let Err(why) = counted {
                    tracing::warn!("{times} times {}: {why}", what.name);
                }
            }
        }
    }

    fn watching(&self, id: Identity) -> Vec<SessionId> {
        let sights = self.diagnoses.sights.iter();
        let sees = sights.filter(|(session, sight)| {
            let seat = self.seats.get(session);
            let is_attached = seat.is_some_and(|seat| seat.session.scope.has(id));
            sight.these.contains(&id) || (sight.attached && is_attached)
        });
        sees.map(|(session, _)| *session).collect()
    }

    fn trace(&mut self, session: SessionId, it: Diagnosis, turn: &mut Turn<'_>) {
        let it = self.whole(it, turn);
        self.log(&it);
        let process = it.whose.pid.and_then(|pid| self.asked.iter().find(|(id, _)| id.pid == pid));
        let process = process.map(|(id, _)| *id);
        for (_, form) in FORMS {
            let line = Value::Text(Text::from(form.line(&it).into_bytes()));
            let who = process.map_or(Told::Value(Value::from(-1)), Told::Process);
            let name = Value::Text(Text::from(&*it.event));
            let told = [
                Told::Value(line),
                Told::Value(name),
                Told::Value(it.count.into()),
                who,
                Told::Value(it.processes.into()),
            ];
            let (topic, told) = (EventKind::Diagnosed(*form), told.into());
            let it = NodeEvent { process, ..NodeEvent::new(topic, turn.now, told) };
            self.occurred(&it, (Some(session), 0), turn);
        }
    }

    /// With the time of day and the name of the node.
    fn whole(&self, it: Diagnosis, turn: &Turn<'_>) -> Diagnosis {
        let own = self.members.iter().find(|member| member.node == self.node);
        let host = own.map_or_else(|| Arc::from(""), |member| member.name.as_str().into());
        Diagnosis { at: turn.ground.since_1970(it.at), host, ..it }
    }

    fn log(&self, it: &Diagnosis) {
        tracing::warn!(target: "diag", "{}", Form::Text.line(it));
    }
}

fn finalize() -> EventKind {
    EventKind::Called(Tap { name: "MPI_Finalize".to_owned(), edge: Edge::Start })
}
