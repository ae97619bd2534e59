//! Parallel jobs that appear, become ready, stop, go on and end: reads them, and dispatches
//! their transitions.
//!
//! In: programs that were executed, ends of processes, the processes of the node. Out:
//! `job_changed` events, each for the tools that may see the job; ranks for those that wait.

use super::{RequestEngine, Turn};
use crate::job::history::{may_see, transition_values};
use crate::job::watch::JobConsumer;
use monitor_event::{EventKind, EventParam, NodeEvent, SessionId};
use monitor_jobs::discovery::hidden_launchers;
use monitor_jobs::job_log::{EndStatus, FoundJob, FoundLauncher, JobTransition, ProcessStates};
use monitor_jobs::{ParallelJob, Runtime, discover};
use monitor_model::{Credentials, Identity, Process, ProcessField as F};
use std::collections::HashMap;

impl RequestEngine {
    /// Follows jobs, and faults and limits of the node, while a tool waits for their changes.
    pub(super) fn follow_node(&mut self, turn: &mut Turn<'_>) {
        let (mut of_jobs, mut of_environment) = (false, false);
        for filter in self.sessions.values().flat_map(|it| it.stored.watched_filters()) {
            of_jobs |= filter.kind == EventKind::JobChanged;
            of_environment |= filter.kind == EventKind::EnvironmentChanged;
        }
        // The ranks of processes that are killed are those of jobs that are followed.
        let consumer = match of_jobs || of_environment {
            true => JobConsumer::Changes,
            false if self.awaits_ranks() => JobConsumer::Ranks,
            false => JobConsumer::None,
        };
        self.follow_jobs(consumer, turn);
        self.follow_environment(of_environment, turn);
    }

    /// Begins or ends to follow jobs, and reads them if it is time.
    fn follow_jobs(&mut self, consumer: JobConsumer, turn: &mut Turn<'_>) {
        self.shared.is_stale |= self.shared.job_watch.update(consumer, turn.now);
        if self.shared.job_watch.due().is_none_or(|due| due > turn.now) {
            return;
        }
        if self.shared.job_watch.is_unsure() {
            return self.find_reports(turn);
        }
        match read_ranks(turn) {
            Some(processes) => self.add_reading(&processes, turn),
            None => self.shared.job_watch.retry(turn.now),
        }
    }

    /// Finds out whether the kernel reports executions. The reading follows when they are watched:
    /// no job that begins in between is missed.
    fn find_reports(&mut self, turn: &mut Turn<'_>) {
        turn.platform.begin_deferrable();
        let checked = turn.platform.check_event(&EventKind::Executed);
        if turn.platform.end_deferrable() {
            return self.shared.job_watch.retry(turn.now);
        }
        if let Err(why) = &checked {
            tracing::info!("jobs are followed only while a tool waits for their changes: {why}");
        }
        self.shared.job_watch.set_reported(checked.is_ok());
        self.shared.is_stale = true;
    }

    fn add_reading(&mut self, processes: &[Process], turn: &mut Turn<'_>) {
        let watch = &mut self.shared.job_watch;
        for it in processes.iter().filter(|it| it.ended() || it.is_zombie()) {
            let code = it.row.get(F::ExitCode).and_then(|code| u32::try_from(code).ok());
            // A code above 128 may be that of a signal, or the program's own.
            let signal = code.filter(|code| *code <= 128).map(|_| 0);
            let _is_of_job = watch.log.note_end(it.id, turn.now, EndStatus { code, signal });
        }
        // Those that ended before their ends were watched.
        for (id, end) in turn.platform.keep_exits(&watch.log.launchers()) {
            let _is_of_job = watch.log.note_end(id, turn.now, end);
        }
        let by_id: HashMap<Identity, &Process> = processes.iter().map(|it| (it.id, it)).collect();
        let is_running = |id| by_id.get(&id).is_some_and(|it| !it.ended() && !it.is_zombie());
        let platform = &*turn.platform;
        let jobs = discover(processes, &|process| platform.executable(process.id));
        let launchers: Vec<FoundLauncher> =
            hidden_launchers(processes, &jobs).filter_map(found_launcher).collect();
        let found = |job: ParallelJob| FoundJob { reader: reader(&job, &by_id), job };
        let jobs: Vec<FoundJob> = jobs.into_iter().map(found).collect();
        let tracer = |id| platform.tracer(id);
        let is_stopped = |id| by_id.get(&id).is_some_and(|it| it.is_stopped());
        let states =
            ProcessStates { is_running: &is_running, is_stopped: &is_stopped, tracer: &tracer };
        let mut new = watch.log.compare_launchers(turn.now, &launchers, &states);
        new.extend(watch.log.compare(turn.now, &jobs, &states));
        // One that was found by this reading may end before its end is watched.
        for (id, end) in turn.platform.keep_exits(&watch.log.launchers()) {
            watch.process_ended(id, turn.now, end);
        }
        self.shared.is_stale |= watch.finish_reading(turn.now);
        self.join_found_ranks(&jobs, &by_id, turn);
        for it in new {
            self.dispatch_transition(&it, turn);
        }
    }

    fn dispatch_transition(&mut self, it: &JobTransition, turn: &mut Turn<'_>) {
        let values = transition_values(it, turn.platform.unix_time(it.at));
        let params = values.into_iter().map(EventParam::Value).collect();
        let event = NodeEvent::new(EventKind::JobChanged, it.at, params);
        let sees = |key: &SessionId| {
            let state = self.sessions.get(key);
            state.is_some_and(|state| may_see(state.session.tool.visibility, it))
        };
        let seeing: Vec<SessionId> = self.sessions.keys().copied().filter(sees).collect();
        for session in seeing {
            self.dispatch(&event, (Some(session), 0), turn);
        }
    }

    /// A process has executed a program: the first rank of a job, or a further one; a launcher.
    pub(super) fn note_executed(&mut self, id: Identity, turn: &mut Turn<'_>) {
        let watch = &mut self.shared.job_watch;
        if !watch.is_reported() {
            return;
        }
        if turn.platform.is_rank(id) {
            return watch.rank_executed(turn.now);
        }
        let Some((runtime, user)) = turn.platform.launcher(id) else { return };
        let uid = user.map(|it| it.uid);
        let found = FoundLauncher { id, runtime, uid, reader: user };
        if let Some(new) = watch.launcher_executed(found, turn.now) {
            for (id, end) in turn.platform.keep_exits(&watch.log.launchers()) {
                watch.process_ended(id, turn.now, end);
            }
            self.shared.is_stale = true;
            self.dispatch_transition(&new, turn);
        }
    }

    /// A process has ended: a rank, or the launcher of a job.
    pub(super) fn note_end_of_rank(&mut self, it: &NodeEvent, turn: &Turn<'_>) {
        let Some(id) = it.process.filter(|_| it.kind == EventKind::Ended) else { return };
        let number = |place: usize| match it.params.get(place) {
            Some(EventParam::Value(value)) => value.integer::<u32>(),
            _ => None,
        };
        let end = EndStatus { code: number(1), signal: number(2) };
        self.shared.job_watch.process_ended(id, turn.now, end);
    }
}

/// All processes with their ranks; nothing, if they cannot be read now.
fn read_ranks(turn: &mut Turn<'_>) -> Option<Vec<Process>> {
    turn.platform.begin_deferrable();
    let processes = turn.platform.ranked_processes();
    let is_deferred = turn.platform.end_deferrable();
    let processes = processes.inspect_err(|why| {
        if !is_deferred {
            tracing::warn!("jobs are not seen: {why}");
        }
    });
    processes.ok()
}

/// The user, besides root, that may read the first rank of a job.
fn reader(job: &ParallelJob, by_id: &HashMap<Identity, &Process>) -> Option<Credentials> {
    reader_of(by_id.get(&job.ranks.first()?.process)?)
}

/// The user, besides root, that may read a process.
fn reader_of(process: &Process) -> Option<Credentials> {
    let id = |field| process.row.get(field).and_then(|id| u32::try_from(id).ok());
    let user = Credentials { uid: id(F::Uid)?, gid: id(F::Gid)? };
    user.may_read(process).then_some(user)
}

/// A launcher without a rank. A host of this program may keep the output of a job that has ended.
fn found_launcher(process: &Process) -> Option<FoundLauncher> {
    let (runtime, _) = Runtime::of_program(&process.comm())?;
    let uid = process.row.get(F::Uid).and_then(|uid| u32::try_from(uid).ok());
    let found = FoundLauncher { id: process.id, runtime, uid, reader: reader_of(process) };
    (runtime != Runtime::Native).then_some(found)
}
