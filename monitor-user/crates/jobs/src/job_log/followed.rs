//! A job that is there: its processes so far, how they have ended, and what a reading changes.
//!
//! In: the job of a reading, or that none has it any more. Out: transitions. A job whose processes
//! are replaced for ever takes a bounded room: the ends of those of the past are put together.

use super::launches::Launches;
use super::tracer_lookups::{ASKED_FOR_TRACER, TracerLookups};
use super::transition::{EndStatus, FoundJob, JobChange, JobTransition, ProcessStates};
use crate::discovery::{JobState, ParallelJob};
use crate::hold_table::HoldPoint;
use crate::runtime::Runtime;
use monitor_model::{Credentials, Identity, Ns, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many ended processes of a job are known one by one, besides its ranks.
pub(super) const KNOWN_ENDS: usize = 64;
/// How long after the last rank the end of the launcher, which has the status, is awaited. It may
/// have ranks on other nodes.
pub(super) const LAUNCHER_GRACE: Ns = Ns(5_000_000_000);
/// The same of the host of this program, which may keep the output of ranks that have ended.
const HOST_GRACE: Ns = Ns(1_000_000_000);

/// What the ranks of a job do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobPhase {
    /// Not all of them are there.
    Launching,
    Running,
    Stopped,
    /// The tool that launches the job holds them.
    Held,
}

/// A hold that a tool has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedHold {
    /// Where the ranks are held.
    pub place: HoldPoint,
    /// Whether the kernel has stopped processes of them: then they are held until all of these run.
    pub by_kernel: bool,
}

/// A job that is there.
#[derive(Debug)]
pub(super) struct FollowedJob {
    pub(super) job: ParallelJob,
    reader: Option<Credentials>,
    ranks: usize,
    /// The launcher and the processes of ranks, and how they have ended.
    pub(super) ends: BTreeMap<Identity, Option<(Ns, EndStatus)>>,
    /// Those of processes before, together.
    past: PastEnds,
    /// The rank of each of these processes.
    rank_of: BTreeMap<Identity, u32>,
    phase: JobPhase,
    /// The number of ranks of the last reading, if they had not run before, and the tool that
    /// launches them may hold them.
    may_be_held: Option<usize>,
    /// The hold that was reported, until its end is.
    pub(super) hold: Option<ReportedHold>,
    has_failed: bool,
    is_traced: bool,
    /// Since when no rank is left.
    pub(super) missing_since: Option<Ns>,
}

impl FollowedJob {
    pub(super) fn new(found: &FoundJob) -> Self {
        Self {
            job: found.job.clone(),
            reader: found.reader,
            ranks: 0,
            ends: BTreeMap::new(),
            past: PastEnds::default(),
            rank_of: BTreeMap::new(),
            phase: JobPhase::Launching,
            may_be_held: None,
            hold: None,
            has_failed: false,
            is_traced: false,
            missing_since: None,
        }
    }

    /// Whether a job has a rank that this one has, so that it is no other one with the same id.
    pub(super) fn has_rank_of(&self, job: &ParallelJob) -> bool {
        let is_known = |process| self.ends.contains_key(&process);
        job.ranks.iter().any(|it| is_known(it.process)) || self.job.start == job.start
    }

    pub(super) fn see(
        &mut self,
        found: &FoundJob,
        (now, states): (Ns, &ProcessStates<'_>),
        (launches, asked): (&Launches, &mut TracerLookups),
        new: &mut Vec<JobTransition>,
    ) {
        new.extend(self.failure());
        let (start, launcher) = (self.job.start, self.job.launcher);
        self.job = found.job.clone();
        self.job.start = start.min(found.job.start);
        // An orphan keeps the launcher that it had.
        self.job.launcher = self.job.launcher.or(launcher);
        self.missing_since = None;
        self.ranks = self.ranks.max(self.job.ranks.len());
        let ranks = self.job.ranks.iter().map(|it| it.process);
        for process in ranks.chain(self.job.launcher) {
            let _known = self.ends.entry(process).or_default();
        }
        self.rank_of.extend(self.job.ranks.iter().map(|it| (it.process, it.rank)));
        if self.ends.len() > self.job.ranks.len() + 1 + KNOWN_ENDS {
            self.fold_past_ends();
        }
        self.change_phase((now, states), (launches, asked), new);
        new.extend(self.trace_change((now, states), asked));
    }

    /// Compares what the ranks do together with the reading before.
    fn change_phase(
        &mut self,
        (now, states): (Ns, &ProcessStates<'_>),
        (launches, asked): (&Launches, &mut TracerLookups),
        new: &mut Vec<JobTransition>,
    ) {
        let expected = self.job.local_size.and_then(|it| usize::try_from(it).ok()).unwrap_or(1);
        let is_complete = self.job.ranks.len() >= expected;
        let is_stopped = self.job.state == JobState::Stopped;
        // A shell around a rank that is stopped waits for it.
        let mut all = self.job.ranks.iter().flat_map(|rank| &rank.all);
        let is_part_stopped = all.any(|it| (states.is_stopped)(*it));
        self.hold = self.hold.filter(|it| is_part_stopped || !it.by_kernel);
        let before = self.phase;
        // A rank of Slurm executes its program, is stopped by slurmstepd, and then by the tool:
        // between these it may seem to run.
        let mut seems_to_run = || is_part_stopped || launches.is_traced(&self.job, states, asked);
        let may_be_held =
            before == JobPhase::Launching && (is_stopped || is_complete && seems_to_run());
        let may_be_held = may_be_held.then_some(self.job.ranks.len());
        self.phase = match self.hold {
            Some(_) if is_complete => JobPhase::Held,
            // The tool that holds ranks while it launches them reports the place just after.
            None if may_be_held.is_some() && may_be_held != self.may_be_held => before,
            _ if is_stopped => JobPhase::Stopped,
            _ if is_complete || before != JobPhase::Launching => JobPhase::Running,
            _ => before,
        };
        self.may_be_held = may_be_held;
        let place = self.hold.map(|it| it.place);
        let changes: &[JobChange] = match (before, self.phase) {
            (JobPhase::Stopped, JobPhase::Held) => &[JobChange::ReadyForDebug],
            (before, JobPhase::Held) if before != JobPhase::Held => {
                &[JobChange::Stopped, JobChange::ReadyForDebug]
            }
            (JobPhase::Launching | JobPhase::Running, JobPhase::Stopped) => &[JobChange::Stopped],
            (before, JobPhase::Running) if before != JobPhase::Running => &[JobChange::Running],
            _ => &[],
        };
        new.extend(changes.iter().map(|it| JobTransition { place, ..self.transition(now, *it) }));
    }

    /// The failure of its first rank that has ended with another code than 0, or by a signal.
    fn failure(&mut self) -> Option<JobTransition> {
        if self.has_failed {
            return None;
        }
        let ranks = self.ends.iter().filter(|(id, _)| self.rank_of.contains_key(id));
        let failed = ranks.filter_map(|(id, end)| Some((*id, (*end)?)));
        let failed = failed.filter(|(_, (_, end))| end.code.is_some_and(|code| code != 0));
        let (id, (at, end)) = failed.min_by_key(|(_, (at, _))| *at)?;
        self.has_failed = true;
        let (rank, pid) = (self.rank_of.get(&id).copied(), Some(id.pid));
        Some(JobTransition { end, rank, pid, ..self.transition(at, JobChange::Failed) })
    }

    /// Another process has begun to trace a rank, or none does any more.
    fn trace_change(
        &mut self,
        (now, states): (Ns, &ProcessStates<'_>),
        asked: &mut TracerLookups,
    ) -> Option<JobTransition> {
        let ranks = self.job.ranks.iter();
        let processes = ranks.flat_map(|rank| rank.all.iter().map(|id| (rank.rank, *id)));
        let mut traced: Option<(u32, Pid)> = None;
        for (rank, id) in processes.take(ASKED_FOR_TRACER[0]) {
            if !asked.add(self.job.uid) {
                // Whether it is still traced is not known.
                return None;
            }
            traced = (states.tracer)(id).map(|tracer| (rank, tracer));
            if traced.is_some() {
                break;
            }
        }
        if std::mem::replace(&mut self.is_traced, traced.is_some()) == traced.is_some() {
            return None;
        }
        let change = match traced {
            Some(_) => JobChange::DebuggerAttached,
            None => JobChange::DebuggerDetached,
        };
        let (rank, pid) = traced.unzip();
        Some(JobTransition { rank, pid, ..self.transition(now, change) })
    }

    /// Puts the ends of processes that are neither the launcher nor a rank now together.
    fn fold_past_ends(&mut self) {
        let now: BTreeSet<Identity> =
            self.job.ranks.iter().map(|it| it.process).chain(self.job.launcher).collect();
        let past = &mut self.past;
        self.ends.retain(|id, end| {
            let stays = now.contains(id);
            if !stays {
                past.add(*end);
            }
            stays
        });
        self.rank_of.retain(|id, _| now.contains(id));
    }

    /// No rank is left; returns whether the end of the launcher is awaited.
    pub(super) fn miss(
        &mut self,
        now: Ns,
        states: &ProcessStates<'_>,
        new: &mut Vec<JobTransition>,
    ) -> bool {
        let since = *self.missing_since.get_or_insert(now);
        new.extend(self.failure());
        let launcher = self.job.launcher.filter(|it| (states.is_running)(*it));
        let grace = if self.job.runtime == Runtime::Native { HOST_GRACE } else { LAUNCHER_GRACE };
        if launcher.is_some() && now.since(since) < grace {
            return true;
        }
        let last = self.ends.values().flatten().map(|(at, _)| *at).chain(self.past.last).max();
        let ended = self.transition(last.unwrap_or(since), JobChange::Ended);
        new.push(JobTransition { end: self.end(), ..ended });
        false
    }

    /// The status of the launcher; without it, that of the first rank that failed.
    fn end(&self) -> EndStatus {
        let of_launcher = self.job.launcher.and_then(|id| self.ends.get(&id).copied().flatten());
        if let Some((_, end)) = of_launcher.filter(|(_, end)| end.code.is_some()) {
            return end;
        }
        let ranks = self.ends.iter().filter(|(id, _)| Some(**id) != self.job.launcher);
        let mut ends: Vec<_> = ranks.map(|(_, end)| *end).collect();
        ends.sort_by_key(|it| it.map(|(at, _)| at));
        let failed = ends.iter().flatten().find(|(_, end)| end.code.is_some_and(|it| it != 0));
        let failed = self.past.failed.or(failed.map(|(_, end)| *end));
        let are_known = !self.past.has_unknown
            && ends.iter().all(|it| it.is_some_and(|(_, end)| end.code.is_some()));
        let success = EndStatus { code: Some(0), signal: Some(0) };
        failed.or(are_known.then_some(success)).unwrap_or_default()
    }

    pub(super) fn transition(&self, at: Ns, change: JobChange) -> JobTransition {
        JobTransition {
            at,
            change,
            id: Arc::clone(&self.job.id),
            runtime: self.job.runtime,
            launcher: self.job.launcher.map(|it| it.pid),
            uid: self.job.uid,
            reader: self.reader,
            ranks: self.ranks.max(self.job.ranks.len()),
            age: at.since(self.job.start),
            end: EndStatus::default(),
            rank: None,
            pid: None,
            place: None,
        }
    }
}

/// Ends of processes that are not known one by one.
#[derive(Debug, Default)]
struct PastEnds {
    /// The first failure.
    failed: Option<EndStatus>,
    /// When the last one ended.
    last: Option<Ns>,
    /// Whether one of them is not known.
    has_unknown: bool,
}

impl PastEnds {
    fn add(&mut self, end: Option<(Ns, EndStatus)>) {
        let code = end.and_then(|(_, status)| status.code);
        self.has_unknown |= code.is_none();
        self.last = self.last.max(end.map(|(at, _)| at));
        if code.is_some_and(|it| it != 0) && self.failed.is_none() {
            self.failed = end.map(|(_, status)| status);
        }
    }
}
