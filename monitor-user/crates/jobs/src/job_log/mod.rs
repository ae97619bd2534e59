//! The transitions of parallel jobs, from the launcher to the last rank, and a log of them.
//!
//! In: the jobs that readings of the node show, and ends of processes in between. Out: transitions,
//! and those of the past. A job that comes and goes between two readings is not seen. The log has
//! at most [`MAX_TRANSITIONS`]: beyond that, the user with the most of them loses the oldest one,
//! so that no user can remove those of others.

mod followed;
mod launches;
#[cfg(test)]
mod tests;
mod tracer_lookups;
mod transition;

pub use followed::ReportedHold;
pub use launches::FoundLauncher;
pub use transition::{EndStatus, FoundJob, JobChange, JobTransition, ProcessStates};

use crate::discovery::{JobState, ParallelJob};
use followed::FollowedJob;
use launches::Launches;
use monitor_model::id::is_same;
use monitor_model::{Identity, Ns};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tracer_lookups::TracerLookups;

/// Most transitions that are kept.
pub const MAX_TRANSITIONS: usize = 1024;
/// Most jobs of one user that are followed at a time.
pub const MAX_JOBS_OF_USER: usize = 256;
/// Most processes of one user whose ends are reported, and of all users: what the kernel can follow
/// is shared with the processes of tools.
const WATCHED: (usize, usize) = (512, 1024);
/// Longest id of a job, bytes, as PMIx has it.
const LONGEST_ID: usize = 255;

type JobKey = (Arc<str>, Option<u32>);

/// The jobs that are there, and the transitions so far.
#[derive(Debug, Default)]
pub struct JobLog {
    followed: BTreeMap<JobKey, FollowedJob>,
    /// Holds of jobs that no reading has shown yet.
    holds: BTreeMap<JobKey, ReportedHold>,
    launches: Launches,
    transitions: VecDeque<JobTransition>,
}

impl JobLog {
    /// Compares the jobs of a reading with those of the one before; returns what changed.
    pub fn compare(
        &mut self,
        now: Ns,
        jobs: &[FoundJob],
        states: &ProcessStates<'_>,
    ) -> Vec<JobTransition> {
        let is_named = |it: &&FoundJob| it.job.id.len() <= LONGEST_ID;
        let living = jobs.iter().filter(|it| it.job.state != JobState::Ended).filter(is_named);
        let mut living: BTreeMap<JobKey, &FoundJob> =
            living.map(|it| ((Arc::clone(&it.job.id), it.job.uid), it)).collect();
        let mut new = Vec::new();
        let (launches, mut asked) = (&mut self.launches, TracerLookups::default());
        self.followed.retain(|key, followed| {
            match living.get(key).filter(|it| followed.has_rank_of(&it.job)) {
                Some(found) => {
                    followed.see(found, (now, states), (launches, &mut asked), &mut new);
                    living.remove(key);
                    true
                }
                None => {
                    let is_awaited = followed.miss(now, states, &mut new);
                    let launcher = followed.job.launcher.filter(|it| (states.is_running)(*it));
                    if let Some(launcher) = launcher.filter(|_| !is_awaited) {
                        launches.add_past(launcher);
                    }
                    is_awaited
                }
            }
        });
        for (key, found) in living {
            let of_user = self.followed.keys().filter(|(_, uid)| *uid == key.1).count();
            if of_user < MAX_JOBS_OF_USER && !self.followed.contains_key(&key) {
                let mut followed = FollowedJob::new(found);
                followed.hold = self.holds.remove(&key);
                found.job.launcher.into_iter().for_each(|it| launches.remove(it));
                new.push(followed.transition(now, JobChange::Launching));
                followed.see(found, (now, states), (launches, &mut asked), &mut new);
                self.followed.insert(key, followed);
            }
        }
        // This reading was later than the reports: those jobs have ended, or are not followed.
        self.holds.clear();
        for it in &new {
            self.keep(it.clone());
        }
        new
    }

    /// A launcher was executed; returns what changed.
    pub fn note_launcher(&mut self, found: FoundLauncher, at: Ns) -> Option<JobTransition> {
        if self.followed.values().any(|it| it.job.launcher == Some(found.id)) {
            return None;
        }
        let new = self.launches.add(found, at)?;
        self.keep(new.clone());
        Some(new)
    }

    /// Compares the launchers without a job of a reading with those before; returns what changed.
    /// Call it before [`JobLog::compare`].
    pub fn compare_launchers(
        &mut self,
        now: Ns,
        found: &[FoundLauncher],
        states: &ProcessStates<'_>,
    ) -> Vec<JobTransition> {
        // Its ranks may have ended before it.
        let is_known = |id| self.followed.values().any(|it| it.job.launcher == Some(id));
        let found: Vec<_> = found.iter().copied().filter(|it| !is_known(it.id)).collect();
        let new = self.launches.compare(now, &found, states);
        for it in &new {
            self.keep(it.clone());
        }
        new
    }

    /// A process has ended; returns whether a job has lost a rank or its launcher by that.
    pub fn note_end(&mut self, id: Identity, at: Ns, end: EndStatus) -> bool {
        let mut is_of_job = self.launches.note_end(id, at, end);
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

    /// A tool holds all ranks of a job, or holds them no longer; a reading is to follow. Of jobs
    /// that no reading has shown, as many are kept as jobs of a user are followed.
    pub fn report_hold(&mut self, job: &ParallelJob, hold: Option<ReportedHold>) {
        if job.id.len() > LONGEST_ID {
            return;
        }
        let key = (Arc::clone(&job.id), job.uid);
        let followed = self.followed.get_mut(&key).filter(|it| it.has_rank_of(job));
        match (followed, hold) {
            (Some(followed), _) => followed.hold = hold,
            (None, None) => drop(self.holds.remove(&key)),
            (None, Some(hold)) => {
                let of_user = self.holds.keys().filter(|(_, uid)| *uid == job.uid).count();
                if of_user < MAX_JOBS_OF_USER {
                    self.holds.insert(key, hold);
                }
            }
        }
    }

    /// The launchers without a rank whose ends are awaited.
    pub fn launchers(&self) -> Vec<Identity> {
        self.launches.processes().map(|(_, id)| id).collect()
    }

    /// The processes whose ends are of interest: launchers and ranks, as far as there is room.
    pub fn processes(&self) -> Vec<Identity> {
        let (of_user, of_all) = WATCHED;
        let mut by_user: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        let mut all = Vec::new();
        for (uid, launcher) in self.launches.processes().take(of_all) {
            *by_user.entry(uid).or_default() += 1;
            all.push(launcher);
        }
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

    /// The job and the rank of a process, by the last reading.
    pub fn rank_of(&self, id: Identity) -> Option<(&ParallelJob, u32)> {
        self.followed.values().find_map(|followed| {
            let mut ranks = followed.job.ranks.iter();
            let of_process = ranks.find(|rank| rank.all.iter().any(|it| is_same(*it, id)))?;
            Some((&followed.job, of_process.rank))
        })
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
        self.holds.clear();
        self.launches.clear();
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
