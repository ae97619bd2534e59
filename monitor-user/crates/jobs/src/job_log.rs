//! The transitions of parallel jobs: appeared, ready, stopped, continued, ended; and a log of them.
//!
//! In: the jobs that readings of the node show, and ends of processes in between. Out: transitions,
//! and those of the past. A job that comes and goes between two readings is not seen. The log has
//! at most [`MAX_TRANSITIONS`]: beyond that, the user with the most of them loses the oldest one,
//! so that no user can remove those of others.

use crate::discovery::{JobState, ParallelJob};
use crate::runtime::{Runtime, slurm_step};
use monitor_model::{Credentials, Identity, Ns, Pid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Most transitions that are kept.
pub const MAX_TRANSITIONS: usize = 1024;
/// Most jobs of one user that are followed at a time.
pub const MAX_JOBS_OF_USER: usize = 256;
/// Most processes of one user whose ends are reported, and of all users: what the kernel can follow
/// is shared with the processes of tools.
const WATCHED: (usize, usize) = (512, 1024);
/// How many ended processes of a job are known one by one, besides its ranks.
const KNOWN_ENDS: usize = 64;
/// Longest id of a job, bytes, as PMIx has it.
const LONGEST_ID: usize = 255;
/// How long after the last rank the end of the launcher, which has the status, is awaited.
const LAUNCHER_GRACE: Ns = Ns(1_000_000_000);

/// What changed of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    /// Its first rank on this node was found.
    Appeared,
    /// All its ranks of this node are there.
    Ready,
    /// All its ranks are stopped.
    Stopped,
    /// Not all of its ranks are stopped any more.
    Continued,
    /// No rank of it is left on this node.
    Ended,
}

monitor_model::names! { JobChange {
    Appeared "appeared", Ready "ready", Stopped "stopped", Continued "continued", Ended "ended",
} }

/// How a process, or a job, has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndStatus {
    /// Its exit code, or 128 and the number of the signal; absent if unknown.
    pub code: Option<u32>,
    /// The signal that ended it, 0 if none did; absent if unknown.
    pub signal: Option<u32>,
}

/// A transition of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTransition {
    /// When, since boot.
    pub at: Ns,
    /// What changed.
    pub change: JobChange,
    /// The id of the job.
    pub id: Arc<str>,
    /// Its runtime.
    pub runtime: Runtime,
    /// Its launcher on this node.
    pub launcher: Option<Pid>,
    /// The user id of its ranks.
    pub uid: Option<u32>,
    /// The user, besides root, that may read its ranks.
    pub reader: Option<Credentials>,
    /// Most ranks that it had on this node so far.
    pub ranks: usize,
    /// The time since its first rank on this node started.
    pub age: Ns,
    /// How it ended.
    pub end: EndStatus,
}

impl JobTransition {
    /// Whether a text names its job: the id, the beginning of it, a step of Slurm, or the pid of
    /// the launcher. The empty text names all jobs.
    pub fn is_of(&self, written: &str) -> bool {
        self.id.starts_with(written)
            || slurm_step(&self.id) == Some(written)
            || written.parse().is_ok_and(|pid| self.launcher == Some(Pid(pid)))
    }
}

/// A job that a reading shows.
#[derive(Clone, Debug)]
pub struct FoundJob {
    /// The job.
    pub job: ParallelJob,
    /// The user, besides root, that may read its ranks.
    pub reader: Option<Credentials>,
}

type JobKey = (Arc<str>, Option<u32>);

/// The jobs that are there, and the transitions so far.
#[derive(Debug, Default)]
pub struct JobLog {
    followed: BTreeMap<JobKey, FollowedJob>,
    transitions: VecDeque<JobTransition>,
}

impl JobLog {
    /// Compares the jobs of a reading with those of the one before; returns what changed.
    /// `is_running` says whether a process is there and no zombie.
    pub fn compare(
        &mut self,
        now: Ns,
        jobs: &[FoundJob],
        is_running: &dyn Fn(Identity) -> bool,
    ) -> Vec<JobTransition> {
        let is_named = |it: &&FoundJob| it.job.id.len() <= LONGEST_ID;
        let living = jobs.iter().filter(|it| it.job.state != JobState::Ended).filter(is_named);
        let mut living: BTreeMap<JobKey, &FoundJob> =
            living.map(|it| ((Arc::clone(&it.job.id), it.job.uid), it)).collect();
        let mut new = Vec::new();
        self.followed.retain(|key, followed| {
            match living.get(key).filter(|it| followed.has_rank_of(&it.job)) {
                Some(found) => {
                    followed.see(found, now, &mut new);
                    living.remove(key);
                    true
                }
                None => followed.miss(now, is_running, &mut new),
            }
        });
        for (key, found) in living {
            let of_user = self.followed.keys().filter(|(_, uid)| *uid == key.1).count();
            if of_user < MAX_JOBS_OF_USER && !self.followed.contains_key(&key) {
                let mut followed = FollowedJob::new(found);
                new.push(followed.transition(now, JobChange::Appeared));
                followed.see(found, now, &mut new);
                self.followed.insert(key, followed);
            }
        }
        for it in &new {
            self.keep(it.clone());
        }
        new
    }

    /// A process has ended; returns whether a job has lost a rank or its launcher by that.
    pub fn note_end(&mut self, id: Identity, at: Ns, end: EndStatus) -> bool {
        let mut is_of_job = false;
        for job in self.followed.values_mut() {
            if let Some(known) = job.ends.get_mut(&id) {
                is_of_job = true;
                if known.is_none_or(|(_, known)| known.code.is_none()) {
                    *known = Some((at, end));
                }
            }
        }
        is_of_job
    }

    /// The processes whose ends are of interest: launchers and ranks, as far as there is room.
    pub fn processes(&self) -> Vec<Identity> {
        let (of_user, of_all) = WATCHED;
        let mut by_user: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        let mut all = Vec::new();
        for ((_, uid), job) in &self.followed {
            let count = by_user.entry(*uid).or_default();
            let launcher = job.job.launcher.iter().copied();
            let others = job.ends.keys().copied().filter(|id| Some(*id) != job.job.launcher);
            let living = launcher.chain(others).filter(|id| job.ends.get(id) == Some(&None));
            let room = (of_user - *count).min(of_all - all.len());
            let before = all.len();
            all.extend(living.take(room));
            *count += all.len() - before;
        }
        all
    }

    /// Number of jobs that are there.
    pub fn n_followed(&self) -> usize {
        self.followed.len()
    }

    /// Whether the end of a launcher is awaited.
    pub fn awaits_launcher(&self) -> bool {
        self.followed.values().any(|it| it.missing_since.is_some())
    }

    /// Forgets the jobs that are there, and keeps the transitions.
    pub fn stop_following(&mut self) {
        self.followed.clear();
    }

    /// The transitions so far, the oldest first.
    pub fn transitions(&self) -> impl Iterator<Item = &JobTransition> {
        self.transitions.iter()
    }

    fn keep(&mut self, it: JobTransition) {
        if self.transitions.len() >= MAX_TRANSITIONS {
            let mut by_user: BTreeMap<Option<u32>, usize> = BTreeMap::new();
            for it in &self.transitions {
                *by_user.entry(it.uid).or_default() += 1;
            }
            let most = by_user.into_iter().max_by_key(|(_, n)| *n).map(|(uid, _)| uid);
            let oldest = self.transitions.iter().position(|it| Some(it.uid) == most);
            drop(oldest.and_then(|place| self.transitions.remove(place)));
        }
        self.transitions.push_back(it);
    }
}

/// A job that is there.
#[derive(Debug)]
struct FollowedJob {
    job: ParallelJob,
    reader: Option<Credentials>,
    ranks: usize,
    /// The launcher and the processes of ranks, and how they have ended.
    ends: BTreeMap<Identity, Option<(Ns, EndStatus)>>,
    /// Those of processes before, together.
    past: PastEnds,
    is_ready: bool,
    is_stopped: bool,
    /// Since when no rank is left.
    missing_since: Option<Ns>,
}

impl FollowedJob {
    fn new(found: &FoundJob) -> Self {
        Self {
            job: found.job.clone(),
            reader: found.reader,
            ranks: 0,
            ends: BTreeMap::new(),
            past: PastEnds::default(),
            is_ready: false,
            is_stopped: false,
            missing_since: None,
        }
    }

    /// Whether a job has a rank that this one has, so that it is no other one with the same id.
    fn has_rank_of(&self, job: &ParallelJob) -> bool {
        let is_known = |process| self.ends.contains_key(&process);
        job.ranks.iter().any(|it| is_known(it.process)) || self.job.start == job.start
    }

    fn see(&mut self, found: &FoundJob, now: Ns, new: &mut Vec<JobTransition>) {
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
        if self.ends.len() > self.job.ranks.len() + 1 + KNOWN_ENDS {
            self.fold_past_ends();
        }
        let expected = self.job.local_size.and_then(|it| usize::try_from(it).ok()).unwrap_or(1);
        if !self.is_ready && self.job.ranks.len() >= expected {
            self.is_ready = true;
            new.push(self.transition(now, JobChange::Ready));
        }
        let is_stopped = self.job.state == JobState::Stopped;
        if std::mem::replace(&mut self.is_stopped, is_stopped) != is_stopped {
            let change = if is_stopped { JobChange::Stopped } else { JobChange::Continued };
            new.push(self.transition(now, change));
        }
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
    }

    /// No rank is left; returns whether the end of the launcher is awaited.
    fn miss(
        &mut self,
        now: Ns,
        is_running: &dyn Fn(Identity) -> bool,
        new: &mut Vec<JobTransition>,
    ) -> bool {
        let since = *self.missing_since.get_or_insert(now);
        let launcher = self.job.launcher.filter(|it| is_running(*it));
        if launcher.is_some() && now.since(since) < LAUNCHER_GRACE {
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

    fn transition(&self, at: Ns, change: JobChange) -> JobTransition {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::RankProcesses;

    const LAUNCHER: u32 = 10;

    fn id(pid: u32) -> Identity {
        Identity { pid: Pid(pid), start: Ns(u64::from(pid)) }
    }

    /// A job of user 7 that is to have two ranks here.
    fn job(name: &str, ranks: &[u32], state: JobState) -> FoundJob {
        let process = |pid| RankProcesses { rank: pid, process: id(pid), all: vec![id(pid)] };
        let job = ParallelJob {
            id: name.into(),
            runtime: Runtime::OpenMpi4,
            launcher: Some(id(LAUNCHER)),
            daemon: None,
            uid: Some(7),
            ranks: ranks.iter().copied().map(process).collect(),
            local_size: Some(2),
            size: Some(2),
            state,
            start: Ns(20),
        };
        FoundJob { job, reader: None }
    }

    /// A log, and the launchers that run.
    #[derive(Default)]
    struct World {
        log: JobLog,
        launcher_runs: bool,
    }

    impl World {
        #[track_caller]
        fn check(&mut self, at: u64, jobs: &[FoundJob], want: &str) -> Vec<JobTransition> {
            let runs = self.launcher_runs;
            let new = self.log.compare(Ns(at), jobs, &|it| runs && it == id(LAUNCHER));
            let names: Vec<_> =
                new.iter().map(|it| format!("{} {}", it.id, it.change.name())).collect();
            assert_eq!(names.join(", "), want);
            new
        }
    }

    fn end(code: u32, signal: u32) -> EndStatus {
        EndStatus { code: Some(code), signal: Some(signal) }
    }

    #[test]
    fn a_job_is_ready_when_all_its_ranks_are_there() {
        let mut world = World::default();
        world.check(30, &[], "");
        world.check(40, &[job("a", &[20], JobState::Incomplete)], "a appeared");
        let all = [job("a", &[20, 21], JobState::Running)];
        let new = world.check(50, &all, "a ready");
        assert_eq!((new[0].ranks, new[0].age, new[0].launcher), (2, Ns(30), Some(Pid(LAUNCHER))));
        world.check(60, &all, "");
        world.check(70, &[job("a", &[21], JobState::Incomplete)], "");
        world.check(80, &all, "");
    }

    #[test]
    fn stops_and_continuations_are_of_all_ranks() {
        let mut world = World::default();
        world.check(
            30,
            &[job("a", &[20, 21], JobState::Stopped)],
            "a appeared, a ready, a stopped",
        );
        world.check(40, &[job("a", &[20, 21], JobState::Stopped)], "");
        world.check(50, &[job("a", &[20, 21], JobState::Running)], "a continued");
    }

    #[test]
    fn the_end_has_the_status_of_the_launcher_which_is_awaited() {
        let mut world = World { launcher_runs: true, ..World::default() };
        world.check(30, &[job("a", &[20, 21], JobState::Running)], "a appeared, a ready");
        assert!(world.log.note_end(id(20), Ns(38), end(0, 0)));
        assert!(!world.log.note_end(id(99), Ns(38), end(0, 0)));
        world.check(40, &[], "");
        assert!(world.log.awaits_launcher());
        assert!(world.log.note_end(id(LAUNCHER), Ns(45), end(3, 0)));
        world.launcher_runs = false;
        let new = world.check(50, &[], "a ended");
        assert_eq!((new[0].at, new[0].end, new[0].ranks), (Ns(45), end(3, 0), 2));
        assert_eq!(world.log.n_followed(), 0);
        let kept: Vec<_> = world.log.transitions().map(|it| it.change.name()).collect();
        assert_eq!(kept, ["appeared", "ready", "ended"]);
    }

    #[test]
    fn a_launcher_that_stays_is_not_awaited_for_ever() {
        let mut world = World { launcher_runs: true, ..World::default() };
        world.check(30, &[job("a", &[20, 21], JobState::Running)], "a appeared, a ready");
        assert!(world.log.note_end(id(21), Ns(35), end(137, 9)));
        assert!(world.log.note_end(id(20), Ns(36), end(143, 15)));
        world.check(40, &[job("a", &[20, 21], JobState::Ended)], "");
        let new = world.check(40 + LAUNCHER_GRACE.0, &[], "a ended");
        assert_eq!((new[0].end, new[0].at), (end(137, 9), Ns(36)));
    }

    #[test]
    fn a_status_is_unknown_where_an_end_was_not_seen() {
        let mut world = World::default();
        world.check(30, &[job("a", &[20, 21], JobState::Running)], "a appeared, a ready");
        assert!(world.log.note_end(id(20), Ns(35), end(0, 0)));
        let new = world.check(40, &[], "a ended");
        assert_eq!(new[0].end, EndStatus::default());
    }

    #[test]
    fn another_job_with_the_same_id_is_another_one() {
        let mut world = World::default();
        world.check(30, &[job("a", &[20, 21], JobState::Running)], "a appeared, a ready");
        let mut next = job("a", &[50, 51], JobState::Running);
        next.job.start = Ns(50);
        world.check(60, &[next], "a ended, a appeared, a ready");
    }

    #[test]
    fn the_user_with_the_most_transitions_loses_the_oldest() {
        let mut world = World::default();
        let mut other = job("other", &[20, 21], JobState::Running);
        other.job.uid = Some(8);
        world.check(30, &[other.clone()], "other appeared, other ready");
        for at in 0..u64::try_from(MAX_TRANSITIONS).unwrap() {
            let state = if at % 2 == 0 { JobState::Running } else { JobState::Stopped };
            let jobs = [other.clone(), job("a", &[30, 31], state)];
            let _new = world.log.compare(Ns(40 + at), &jobs, &|_| true);
        }
        assert_eq!(world.log.transitions().count(), MAX_TRANSITIONS);
        let of_other = world.log.transitions().filter(|it| it.uid == Some(8));
        assert_eq!(of_other.count(), 2);
    }

    #[test]
    fn a_user_has_a_limit_of_jobs() {
        let mut world = World::default();
        let all: Vec<_> =
            (0..300).map(|n| job(&n.to_string(), &[1000 + n], JobState::Running)).collect();
        let new = world.log.compare(Ns(30), &all, &|_| true);
        assert_eq!((new.len(), world.log.n_followed()), (MAX_JOBS_OF_USER, MAX_JOBS_OF_USER));
    }

    #[test]
    fn a_job_whose_ranks_are_replaced_for_ever_takes_a_bounded_room() {
        let mut world = World::default();
        let of = |first: u32| [job("a", &[20, first, first + 1], JobState::Running)];
        world.check(30, &of(100), "a appeared, a ready");
        for first in (102..2000).step_by(2) {
            assert!(world.log.note_end(id(first - 1), Ns(40), end(u32::from(first == 104), 0)));
            world.check(40, &of(first), "");
            assert!(world.log.processes().len() <= KNOWN_ENDS + 4);
        }
        world.log.note_end(id(LAUNCHER), Ns(50), EndStatus::default());
        let new = world.check(60, &[], "a ended");
        assert_eq!(new[0].end, end(1, 0));
    }

    #[test]
    fn a_user_cannot_have_all_the_room_for_ends_nor_a_long_id() {
        let mut world = World::default();
        let ranks: Vec<u32> = (100..5000).collect();
        world.check(30, &[job("a", &ranks, JobState::Running)], "a appeared, a ready");
        assert_eq!(world.log.processes().len(), WATCHED.0);
        assert!(world.log.processes().contains(&id(LAUNCHER)));
        world.log.stop_following();
        world.check(30, &[job(&"a".repeat(256), &[20], JobState::Running)], "");
    }

    #[test]
    fn a_job_is_named_by_the_beginning_of_its_id_or_its_launcher() {
        let new = World::default().check(
            30,
            &[job("1200", &[20, 21], JobState::Running)],
            "1200 appeared, 1200 ready",
        );
        let named = ["", "12", "1200", "10", "13", "20"].map(|written| new[0].is_of(written));
        assert_eq!(named, [true, true, true, true, false, false]);
    }
}
