//! Unusual events: reads the counts of static probes, and reports the diagnoses that are due.
//!
//! In: `DiagCounters`, the platform. Out: `diag_traced` events and lines of the log. The rest of a
//! process is reported when it calls MPI_Finalize, otherwise at its end.

use super::{RequestEngine, Turn};
use crate::diag::{DiagEvent, Threshold, finalize_tap};
use monitor_event::{EventKind, EventParam, NodeEvent, SessionId};
use monitor_format::diagnosis::{DIAG_FORMATS, DiagFormat};
use monitor_model::{Diagnosis, Identity, Ns};
use monitor_omis::{Text, Value};
use std::{collections::BTreeSet, sync::Arc, task::Poll};

impl RequestEngine {
    /// Reports the diagnoses that are due.
    pub(super) fn report_diagnoses(&mut self, turn: &mut Turn<'_>) {
        self.update_counted_processes(turn);
        if self.shared.diag_counters.takes_reading(turn.now) {
            self.read_probes(turn);
        }
        for (session, it) in self.shared.diag_counters.due_diagnoses(turn.now) {
            self.dispatch_diagnosis(session, it, turn);
        }
    }

    /// Reports the rest of a process before its end is dispatched.
    pub(super) fn finalize_ended(&mut self, id: Identity, turn: &mut Turn<'_>) {
        if self.shared.diag_counters.counted_processes.contains_key(&id) {
            self.read_probes(turn);
        }
        self.shared.diag_counters.remove_process(id, turn.now);
    }

    /// Logs the rest of a session that has ended.
    pub(super) fn log_rest(&mut self, session: SessionId, turn: &Turn<'_>) {
        for it in self.shared.diag_counters.remove_session(session, turn.now) {
            self.log(&self.with_host(it, turn));
        }
    }

    /// Reports the rest of a process that calls MPI_Finalize.
    pub(super) fn handle_finalize(&mut self, it: &NodeEvent, turn: &mut Turn<'_>) {
        let Some(id) = it.process.filter(|_| it.kind == finalize_call()) else { return };
        if self.shared.diag_counters.counted_processes.contains_key(&id) {
            self.read_probes(turn);
        }
        self.shared.diag_counters.finalize(id, turn.now);
    }

    /// The event to watch for the counters.
    pub(super) fn finalize_event_wanted(&self) -> Option<EventKind> {
        (!self.finalize.processes.is_empty()).then(finalize_call)
    }

    /// Updates the processes whose probes the platform counts.
    fn update_counted_processes(&mut self, turn: &mut Turn<'_>) {
        let mut wanted = BTreeSet::new();
        for (session, selection) in &self.shared.diag_counters.probe_selections {
            wanted.extend(selection.these.iter().copied());
            let state = self.sessions.get(session).filter(|_| selection.attached);
            wanted.extend(state.into_iter().flat_map(|state| state.session.scope.members()));
        }
        if !wanted.iter().eq(self.shared.diag_counters.counted_processes.keys()) {
            turn.platform.count_diag_probes(&wanted);
            self.shared.diag_counters.counted_processes.retain(|id, _| wanted.contains(id));
            for id in wanted {
                self.shared
                    .diag_counters
                    .counted_processes
                    .entry(id)
                    .or_insert_with(|| turn.platform.diag_origin(id));
            }
        }
        self.find_finalizing(turn);
    }

    /// Finds the processes that have MPI_Finalize: when counting of their probes begins and, since
    /// they may have executed another program, again at their first count.
    fn find_finalizing(&mut self, turn: &mut Turn<'_>) {
        let counted = self.shared.diag_counters.processes().map(|id| (id, true));
        let watched = self.shared.diag_counters.counted_processes.keys().map(|id| (*id, false));
        let known: BTreeSet<(Identity, bool)> = counted.chain(watched).collect();
        if known == self.finalize.checked {
            return;
        }
        let kind = finalize_call();
        let tap = kind.tap().expect("MPI_Finalize is a call event");
        let new: BTreeSet<Identity> =
            known.difference(&self.finalize.checked).map(|(id, _)| *id).collect();
        self.finalize.processes.retain(|id| known.iter().any(|(other, _)| other == id));
        let mut unknown = BTreeSet::new();
        for id in new {
            match turn.platform.check_tap(tap, id) {
                Poll::Ready(Ok(())) => _ = self.finalize.processes.insert(id),
                Poll::Ready(Err(_)) => {}
                // Its files are read: it is checked again after that.
                Poll::Pending => _ = unknown.insert(id),
            }
        }
        let checked = known.into_iter().filter(|(id, _)| !unknown.contains(id)).collect();
        self.shared.is_stale |= checked != self.finalize.checked;
        self.finalize.checked = checked;
    }

    /// Adds the counts of static probes, for each session that selects them.
    fn read_probes(&mut self, turn: &mut Turn<'_>) {
        for (id, what, times) in turn.platform.take_diag_counts() {
            if !self.shared.diag_counters.knows_origin(id) {
                // It may have executed another program since counting began.
                let now = turn.platform.diag_origin(id);
                let first = self
                    .shared
                    .diag_counters
                    .counted_processes
                    .get(&id)
                    .filter(|_| now.rank.is_none());
                let whose = first.cloned().unwrap_or(now);
                self.shared.diag_counters.set_origin(id, whose);
            }
            let delay = Ns(what.delay_seconds.saturating_mul(1_000_000_000));
            let event = DiagEvent {
                name: what.name.as_str().into(),
                message: what.message.as_str().into(),
                threshold: Threshold { count: what.count, delay },
            };
            for session in self.sessions_counting(id) {
                let counted =
                    self.shared.diag_counters.count((session, Some(id)), &event, times, turn.now);
                if let Err(why) = counted {
                    tracing::warn!("{times} occurrences of {} are not counted: {why}", what.name);
                }
            }
        }
    }

    fn sessions_counting(&self, id: Identity) -> Vec<SessionId> {
        let selections = self.shared.diag_counters.probe_selections.iter();
        let counting = selections.filter(|(session, selection)| {
            let state = self.sessions.get(session);
            let is_attached = state.is_some_and(|state| state.session.scope.has(id));
            selection.these.contains(&id) || (selection.attached && is_attached)
        });
        counting.map(|(session, _)| *session).collect()
    }

    fn dispatch_diagnosis(&mut self, session: SessionId, it: Diagnosis, turn: &mut Turn<'_>) {
        let it = self.with_host(it, turn);
        self.log(&it);
        let process = it.process;
        for (_, form) in DIAG_FORMATS {
            let line = Value::Text(Text::from(form.line(&it).into_bytes()));
            let process_param =
                process.map_or(EventParam::Value(Value::from(-1)), EventParam::Process);
            let name = Value::Text(Text::from(&*it.event));
            let params = [
                EventParam::Value(line),
                EventParam::Value(name),
                EventParam::Value(it.count.into()),
                process_param,
                EventParam::Value(it.processes.into()),
            ];
            let (kind, params) = (EventKind::Diagnosed(*form), params.into());
            let it = NodeEvent { process, ..NodeEvent::new(kind, turn.now, params) };
            self.dispatch(&it, (Some(session), 0), turn);
        }
    }

    /// The diagnosis with the time of day and the node's name.
    fn with_host(&self, it: Diagnosis, turn: &Turn<'_>) -> Diagnosis {
        let own = self.members.iter().find(|member| member.node == self.shared.node);
        let host = own.map_or_else(|| Arc::from(""), |member| member.name.as_str().into());
        Diagnosis { at: turn.platform.unix_time(it.at), host, ..it }
    }

    fn log(&self, it: &Diagnosis) {
        tracing::warn!(target: "diag", "{}", DiagFormat::Text.line(it));
    }
}

fn finalize_call() -> EventKind {
    EventKind::Called(finalize_tap())
}
