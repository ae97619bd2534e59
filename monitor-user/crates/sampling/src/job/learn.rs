//! The memberships of all processes over several samples.
//!
//! In: samples of all processes, with their origins where readable. Out: the membership of each
//! process and its text `job`. A process without an origin (it ended too soon) has the membership
//! of its parent.

use super::membership::Membership;
use super::registry::{MAX_RANKS, RankRegistry};
use crate::parents::{FINAL_RECORD_TIMEOUT, ParentIndex};
use monitor_model::{Identity, Note, Ns, Origin, Process, Sample};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The membership of one process.
#[derive(Clone, Debug)]
struct JobEntry {
    origin: Option<Arc<Origin>>,
    membership: Arc<Membership>,
    job: Option<Arc<str>>,
    /// Time of the last sample with it.
    sampled: Ns,
    /// Since when it is missing.
    missing: Option<Ns>,
}

impl JobEntry {
    fn mark_sampled(&mut self, at: Ns) {
        (self.sampled, self.missing) = (at, None);
    }
}

/// The memberships of the processes of a node.
#[derive(Debug, Default)]
pub struct JobTable {
    known: HashMap<Identity, JobEntry>,
    parents: ParentIndex,
    /// Memberships that several processes share, so that each is kept once.
    shared: HashSet<Arc<Membership>>,
    registry: RankRegistry,
}

impl JobTable {
    /// Adds a sample, and sets the job and rank of each of its processes.
    pub fn learn(&mut self, sample: &mut Sample) {
        let at = sample.at.boot;
        for process in sample.processes.iter().filter(|it| it.text.origin.is_some()) {
            self.read(process, at);
        }
        // A parent is older than its children: its membership is set before theirs.
        let mut others: Vec<_> =
            sample.processes.iter().filter(|it| it.text.origin.is_none()).collect();
        others.sort_by_key(|it| it.id.start);
        for process in others {
            self.inherit(process, at);
        }
        for process in &mut sample.processes {
            // A recording has the job itself, and no origin.
            let recorded = process.text.job.take();
            let known = self.known.get(&process.id);
            process.text.job = known.and_then(|known| known.job.clone()).or(recorded);
            process.text.rank = self.registry.rank(process.id).cloned().map(Arc::new);
            if process.ended() {
                self.registry.remove(process.id);
            }
        }
        sample.notes.extend(cut(&sample.processes));
        sample.notes.extend(refused(self.registry.refused()));
        self.forget(at);
    }

    /// The membership of a process.
    pub fn membership(&self, id: Identity) -> Option<&Membership> {
        self.known.get(&id).map(|known| &*known.membership)
    }

    /// The ranks.
    pub const fn registry(&self) -> &RankRegistry {
        &self.registry
    }

    /// The ranks, to register some.
    pub const fn registry_mut(&mut self) -> &mut RankRegistry {
        &mut self.registry
    }

    fn read(&mut self, process: &Process, at: Ns) {
        let Some(origin) = &process.text.origin else { return };
        let known = self.known.get_mut(&process.id);
        match known.filter(|it| it.origin.as_ref().is_some_and(|it| Arc::ptr_eq(it, origin))) {
            Some(known) => known.mark_sampled(at),
            None => {
                let membership = self.share(Membership::from_origin(origin));
                let (origin, job) = (Some(origin.clone()), membership.job());
                let known = JobEntry { origin, membership, job, sampled: at, missing: None };
                self.insert(process.id, known);
            }
        }
        let rank = self.known.get(&process.id).and_then(|known| known.membership.rank.as_ref());
        self.registry.update(process.id, rank);
    }

    /// Keeps the membership of a known process; a new one gets that of its parent.
    fn inherit(&mut self, process: &Process, at: Ns) {
        if let Some(known) = self.known.get_mut(&process.id) {
            known.mark_sampled(at);
            return;
        }
        let parent = process.parent.or_else(|| self.parents.parent(process));
        if let Some(known) = parent.and_then(|parent| self.known.get(&parent)) {
            let known = JobEntry { origin: None, sampled: at, missing: None, ..known.clone() };
            self.insert(process.id, known);
        }
    }

    fn insert(&mut self, id: Identity, known: JobEntry) {
        self.known.insert(id, known);
        self.parents.insert(id);
    }

    fn share(&mut self, membership: Membership) -> Arc<Membership> {
        if let Some(known) = self.shared.get(&membership) {
            return Arc::clone(known);
        }
        let membership = Arc::new(membership);
        self.shared.insert(Arc::clone(&membership));
        membership
    }

    /// Unregisters processes that are gone; keeps their memberships for a time.
    fn forget(&mut self, at: Ns) {
        let (registry, parents) = (&mut self.registry, &mut self.parents);
        self.known.retain(|id, known| {
            if known.sampled == at {
                return true;
            }
            registry.remove(*id);
            let missing = *known.missing.get_or_insert(at);
            let stays = at.since(missing) <= FINAL_RECORD_TIMEOUT;
            if !stays {
                parents.remove(*id);
            }
            stays
        });
        self.shared.retain(|membership| Arc::strong_count(membership) > 1);
    }
}

/// The note about environments that were too long to be read whole.
fn cut(processes: &[Process]) -> Option<Note> {
    let is_cut = |it: &&Process| it.text.origin.as_ref().is_some_and(|it| it.environ.cut);
    let count = processes.iter().filter(is_cut).count();
    (count > 0).then(|| {
        Note::remark(format!(
            "environment of {count} processes truncated: the rest may name their job"
        ))
    })
}

/// The note about ranks that did not fit into the registry.
fn refused(count: u64) -> Option<Note> {
    let text = format!("{count} ranks not registered: the limit is {MAX_RANKS} processes");
    (count > 0).then(|| Note::remark(text))
}
