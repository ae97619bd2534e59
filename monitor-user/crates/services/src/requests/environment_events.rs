//! Faults and limits of the node: reads them, and dispatches their changes.
//!
//! In: readings of the platform, and processes that the kernel kills because memory is used up.
//! Out: `environment_changed` events, to each tool with what it may see.

use super::{RequestEngine, Turn};
use crate::environment::change_values;
use crate::environment::log::{EnvironmentChange, KilledProcess};
use monitor_event::{EventKind, EventParam, NodeEvent, SessionId};
use monitor_model::{ProcessField, id::is_same};
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
            let checked = turn.platform.check_event(&EventKind::OomKilled);
            if turn.platform.end_deferrable() {
                return self.shared.environment_watch.retry(turn.now);
            }
            self.shared.environment_watch.set_reports_kills(checked.is_ok());
            self.shared.is_stale = true;
        }
        let watch = &mut self.shared.environment_watch;
        let Poll::Ready(values) = turn.platform.read_environment() else {
            return watch.await_reading(turn.now);
        };
        watch.finish_reading(turn.now);
        let reports_kills = watch.reports_kills();
        for it in watch.log.compare(turn.now, values, reports_kills) {
            self.dispatch_change(&it, turn);
        }
    }

    /// A process is killed because memory is used up.
    pub(super) fn note_oom_kill(&mut self, it: &NodeEvent, turn: &mut Turn<'_>) {
        let Some(id) = it.process.filter(|_| it.kind == EventKind::OomKilled) else { return };
        if !self.shared.environment_watch.reports_kills() {
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
