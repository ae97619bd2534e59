//! Faults and limits of the node: reads them, and dispatches their changes.
//!
//! In: readings of the platform, processes that the kernel kills because memory is used up, and
//! machine checks.
//! Out: `environment_changed` events, to each tool with what it may see.

use super::{RequestEngine, Turn};
use crate::environment::change_values;
use crate::environment::log::{EnvironmentChange, KilledProcess, MachineCheck};
use crate::environment::watch::REPORTED;
use monitor_event::{EventKind, EventParam, NodeEvent, SessionId};
use monitor_model::{ProcessField, id::is_same};
use monitor_omis::Value;
use std::sync::Arc;
use std::task::Poll;

impl RequestEngine {
    /// Begins or ends to follow faults and limits, and reads them if it is time.
    pub(super) fn follow_environment(&mut self, has_consumer: bool, turn: &mut Turn<'_>) {
        self.shared.is_stale |= self.shared.environment_watch.update(has_consumer, turn.now);
        if !self.shared.environment_watch.is_due(turn.now) {
            return;
        }
        if self.shared.environment_watch.is_unsure() {
            turn.platform.begin_deferrable();
            let mut reported = REPORTED.to_vec();
            reported.retain(|kind| turn.platform.check_event(kind).is_ok());
            if turn.platform.end_deferrable() {
                return self.shared.environment_watch.retry(turn.now);
            }
            self.shared.environment_watch.set_reported(reported);
            self.shared.is_stale = true;
        }
        let watch = &mut self.shared.environment_watch;
        let Poll::Ready(values) = turn.platform.read_environment() else {
            return watch.await_reading(turn.now);
        };
        watch.finish_reading(turn.now);
        let reports_kills = watch.reports(&EventKind::OomKilled);
        for it in watch.log.compare(turn.now, values, reports_kills) {
            self.dispatch_change(&it, turn);
        }
    }

    /// A processor has recorded a machine check.
    pub(super) fn note_machine_check(&mut self, it: &NodeEvent) {
        if it.kind != EventKind::MachineChecked {
            return;
        }
        let number = |place: usize| match it.params.get(place) {
            Some(EventParam::Value(Value::Integer(number))) => number.get(),
            _ => None,
        };
        if let (Some(cpu), Some(bank), Some(status)) = (number(0), number(1), number(2)) {
            let check = MachineCheck { cpu, bank, status };
            self.shared.environment_watch.log.count_machine_check(check);
        }
    }

    /// A process is killed because memory is used up.
    pub(super) fn note_oom_kill(&mut self, it: &NodeEvent, turn: &mut Turn<'_>) {
        let Some(id) = it.process.filter(|_| it.kind == EventKind::OomKilled) else { return };
        if !self.shared.environment_watch.reports(&it.kind) {
            return;
        }
        // It may have ended meanwhile: then it has no name.
        let found = turn.platform.read_processes(&[id.pid]).unwrap_or_default();
        let found = found.iter().find(|it| is_same(it.id, id));
        let name = found.map(|it| it.comm().to_string());
        let job = self.shared.job_watch.log.rank_of(id);
        let own = found.and_then(|it| it.row.get(ProcessField::Uid));
        let own = own.and_then(|uid| u32::try_from(uid).ok());
        let of_job = job.and_then(|(job, _)| job.uid);
        let uid = own.or(of_job).or(it.credentials.map(|it| it.uid));
        let job = job.map(|(job, rank)| (Arc::clone(&job.id), rank));
        let process = KilledProcess { pid: id.pid, uid, reader: it.credentials, job };
        let at = if it.at.0 == 0 { turn.now } else { it.at };
        let log = &mut self.shared.environment_watch.log;
        let change = log.add_kill(at, &name.unwrap_or_default(), process);
        self.dispatch_change(&change, turn);
    }

    fn dispatch_change(&mut self, it: &EnvironmentChange, turn: &mut Turn<'_>) {
        let unix = turn.platform.unix_time(it.at);
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in sessions {
            let Some(state) = self.sessions.get(&session) else { continue };
            let values = change_values(it, state.session.tool.visibility, unix);
            let params = values.into_iter().map(EventParam::Value).collect();
            let event = NodeEvent::new(EventKind::EnvironmentChanged, it.at, params);
            self.dispatch(&event, (Some(session), 0), turn);
        }
    }
}
