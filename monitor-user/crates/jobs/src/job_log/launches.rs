//! Launchers that have no rank on this node, or none yet.
//!
//! In: launchers that were executed, or that a reading shows without a job; ends of processes. Out:
//! the transition `created`, and the end of one of which no rank was found. One whose ranks were
//! found is of their job from then on.

use super::tracer_lookups::TracerLookups;
use super::transition::{EndStatus, JobChange, JobTransition, ProcessStates};
use crate::discovery::ParallelJob;
use crate::runtime::Runtime;
use monitor_model::{Credentials, Identity, Ns};
use std::collections::{BTreeMap, BTreeSet};

/// Most launchers without a rank of one user that are known at a time, and of all users.
pub(super) const MOST: (usize, usize) = (64, 512);

/// A launcher without a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundLauncher {
    /// The process.
    pub id: Identity,
    /// Its runtime.
    pub runtime: Runtime,
    /// Its user id.
    pub uid: Option<u32>,
    /// The user, besides root, that may read it.
    pub reader: Option<Credentials>,
}

/// The launchers, and how they have ended.
#[derive(Debug, Default)]
pub(super) struct Launches {
    waiting: BTreeMap<Identity, (FoundLauncher, Option<(Ns, EndStatus)>)>,
    /// Those that run on after their job has ended.
    of_past_jobs: BTreeSet<Identity>,
}

impl Launches {
    /// Adds a launcher that runs, unless it is known, or there are too many.
    pub(super) fn add(&mut self, found: FoundLauncher, at: Ns) -> Option<JobTransition> {
        let (most_of_user, most) = MOST;
        let of_user = self.waiting.values().filter(|(it, _)| it.uid == found.uid).count();
        if self.waiting.contains_key(&found.id)
            || self.of_past_jobs.contains(&found.id)
            || of_user >= most_of_user
            || self.waiting.len() >= most
        {
            return None;
        }
        self.waiting.insert(found.id, (found, None));
        Some(transition(&found, at, JobChange::Created))
    }

    /// Notes that a launcher has a job now.
    pub(super) fn remove(&mut self, id: Identity) {
        let _waiting = self.waiting.remove(&id);
    }

    /// Notes that a launcher runs on after its job.
    pub(super) fn add_past(&mut self, id: Identity) {
        if self.of_past_jobs.len() < MOST.1 {
            self.of_past_jobs.insert(id);
        }
    }

    /// Notes the end of a process; whether it is one of them.
    pub(super) fn note_end(&mut self, id: Identity, at: Ns, end: EndStatus) -> bool {
        let Some((_, known)) = self.waiting.get_mut(&id) else { return false };
        if known.is_none_or(|(_, known)| known.code.is_none()) {
            *known = Some((at, end));
        }
        true
    }

    /// Whether another process traces the launcher of a job, or, where that is no ancestor of its
    /// ranks, one that may be.
    pub(super) fn is_traced(
        &self,
        job: &ParallelJob,
        states: &ProcessStates<'_>,
        asked: &mut TracerLookups,
    ) -> bool {
        let mut is_traced = |id| asked.add(job.uid) && (states.tracer)(id).is_some();
        let may_be = |it: &FoundLauncher| (it.runtime, it.uid) == (job.runtime, job.uid);
        let mut running = self.waiting.values().filter(|(_, end)| end.is_none());
        match job.launcher {
            Some(id) => is_traced(id),
            None => running.any(|(it, _)| may_be(it) && is_traced(it.id)),
        }
    }

    /// Those whose ends are awaited.
    pub(super) fn processes(&self) -> impl Iterator<Item = (Option<u32>, Identity)> {
        let running = self.waiting.values().filter(|(_, end)| end.is_none());
        running.map(|(it, _)| (it.uid, it.id))
    }

    /// Compares with a reading: the launchers without a job in it.
    pub(super) fn compare(
        &mut self,
        now: Ns,
        found: &[FoundLauncher],
        states: &ProcessStates<'_>,
    ) -> Vec<JobTransition> {
        let without_job: BTreeSet<Identity> = found.iter().map(|it| it.id).collect();
        self.of_past_jobs.retain(|id| (states.is_running)(*id));
        let mut new = Vec::new();
        self.waiting.retain(|id, (launcher, end)| {
            if end.is_none() && (states.is_running)(*id) {
                // `srun` is no ancestor of ranks, and a host of this program may not have its name
                // yet; of others that are not in the reading, some have a job now, and some are
                // around a launcher.
                return matches!(launcher.runtime, Runtime::Slurm | Runtime::Native)
                    || without_job.contains(id);
            }
            let (at, end) = end.unwrap_or((now, EndStatus::default()));
            let of = |change| JobTransition { end, ..transition(launcher, at, change) };
            let failed = end.code.is_some_and(|code| code != 0);
            new.extend(failed.then(|| of(JobChange::Failed)));
            new.push(of(JobChange::Ended));
            false
        });
        // A host of this program may keep the output of a job that has ended.
        let others = found.iter().filter(|it| it.runtime != Runtime::Native);
        new.extend(others.filter_map(|it| self.add(*it, now)));
        new
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.of_past_jobs.clear();
    }
}

fn transition(it: &FoundLauncher, at: Ns, change: JobChange) -> JobTransition {
    JobTransition {
        at,
        change,
        id: format!("launcher-{}", it.id.pid.0).into(),
        runtime: it.runtime,
        launcher: Some(it.id.pid),
        uid: it.uid,
        reader: it.reader,
        ranks: 0,
        age: at.since(it.id.start),
        end: EndStatus::default(),
        rank: None,
        pid: None,
        place: None,
    }
}
