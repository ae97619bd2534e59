//! Ranks that start after their job was attached: they join the sessions that wait for them.
//!
//! In: programs that are executed, new processes, readings of jobs. Out: attached processes, and a
//! notice to each rule that may have missed what a rank did before. A process joins as it begins
//! its program, if that is reported; a reading of all processes finds the others.

use super::session::SessionState;
use super::{RequestEngine, Turn};
use crate::session::awaited_job::JobMember;
use monitor_event::{EventFilter, EventKind, ProcessSelector, SessionId};
use monitor_jobs::discovery::rank_of;
use monitor_jobs::job_log::FoundJob;
use monitor_model::{Identity, Process, ProcessField};
use monitor_omis::{RequestId, Status};
use std::collections::HashMap;
use std::time::Duration;

impl RequestEngine {
    /// Whether a session waits for ranks.
    pub(super) fn awaits_ranks(&self) -> bool {
        self.sessions.values().any(|state| state.session.scope.awaits_jobs())
    }

    /// Adds a process that has just begun a program to the sessions that wait for its rank; returns
    /// those.
    pub(super) fn join_as_rank(&mut self, id: Identity, turn: &mut Turn<'_>) -> Vec<SessionId> {
        let waits = |state: &SessionState| {
            let scope = &state.session.scope;
            scope.awaits_jobs() && !scope.has(id)
        };
        if !self.sessions.values().any(waits) {
            return Vec::new();
        }
        let process = turn.platform.ranked_process(id);
        let Some(process) = process.filter(|it| !it.ended()) else { return Vec::new() };
        let Some(rank) = rank_of(&process) else { return Vec::new() };
        let uid = process.row.get(ProcessField::Uid).and_then(|uid| u32::try_from(uid).ok());
        let member = JobMember { job: &rank.namespace, uid, rank: rank.rank };
        self.join_rank((id, &process), &member, turn)
    }

    /// Adds the ranks of a reading to the sessions that wait for them and lack them.
    pub(super) fn join_found_ranks(
        &mut self,
        jobs: &[FoundJob],
        by_id: &HashMap<Identity, &Process>,
        turn: &mut Turn<'_>,
    ) {
        if !self.awaits_ranks() {
            return;
        }
        for FoundJob { job, .. } in jobs {
            for rank in &job.ranks {
                let member = JobMember { job: &job.id, uid: job.uid, rank: rank.rank };
                let there = |id: &&Identity| by_id.get(id).is_some_and(|it| !it.is_zombie());
                for id in rank.all.iter().filter(there) {
                    for session in self.join_rank((*id, by_id[id]), &member, turn) {
                        self.report_joined(*id, session, turn);
                    }
                }
            }
        }
    }

    /// Adds a process of a rank to the sessions that wait for it; returns those.
    fn join_rank(
        &mut self,
        (id, process): (Identity, &Process),
        member: &JobMember<'_>,
        turn: &mut Turn<'_>,
    ) -> Vec<SessionId> {
        let mut joined = Vec::new();
        for (key, SessionState { session, .. }) in &mut self.sessions {
            // A rank is known by its environment, which the tool must be allowed to read.
            let is_meant = !session.scope.has(id)
                && session.scope.awaits(member)
                && session.tool.visibility.shows_all_of(process);
            if is_meant {
                session.scope.attach(id);
                session.note_visibility(process);
                joined.push(*key);
            }
        }
        for session in &joined {
            self.notify_late(*session, (id, member), turn);
        }
        joined
    }

    /// Notifies the tools of rules that may have missed events of a rank before it joined, once for
    /// each rule.
    fn notify_late(
        &mut self,
        session: SessionId,
        (id, member): (Identity, &JobMember<'_>),
        turn: &mut Turn<'_>,
    ) {
        let Some(state) = self.sessions.get_mut(&session) else { return };
        let rules = state.stored.requests.iter_mut();
        let new = rules.filter(|(_, rule)| {
            rule.is_enabled && misses_beginnings(&rule.filter) && !rule.has_missed_beginnings
        });
        let new: Vec<RequestId> = new
            .map(|(id, rule)| {
                rule.has_missed_beginnings = true;
                *id
            })
            .collect();
        let age = Duration::from_nanos(turn.now.since(id.start).0);
        let text = format!(
            "rank {} of job {} (process {}) joined {age:.1?} after its start: what ranks that \
             start later do before they join is not known",
            member.rank, member.job, id.pid.0
        );
        for rule in new {
            let results = vec![(-1).into(), text.as_str().into()];
            let reply = self.notice((session, rule), (Status::LOST, results));
            self.send_notice(session, reply, turn);
        }
    }
}

/// Whether a rule for attached processes sees the events of one only after it was attached. The end
/// of a process that has joined is reported even if it ended before.
const fn misses_beginnings(filter: &EventFilter) -> bool {
    let is_seen = matches!(filter.kind, EventKind::Created | EventKind::Ended);
    let is_of_process = filter.kind.followed_activity().is_some() && !is_seen;
    is_of_process && matches!(filter.processes, ProcessSelector::Attached)
}
