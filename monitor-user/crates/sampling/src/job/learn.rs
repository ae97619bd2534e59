//! The memberships of all processes over several samples.
//!
//! In: samples of all processes, with their origins where readable. Out: the membership of each
//! process and its text `job`. A process without an origin (it ended too soon) has the membership
//! of its parent. One whose environment has no job (it is just being replaced, was cleared, or may
//! not be read) has the environment that it got from its parent when it was forked.

use super::environ::unnamed_rank;
use super::membership::Membership;
use super::registry::{MAX_RANKS, RankRegistry};
use crate::parents::{FINAL_RECORD_TIMEOUT, ParentIndex, parent_pid};
use monitor_model::{
    Environ, Identity, Note, NoteAbout, Ns, Origin, Pid, Process, ProcessField, Rank, Sample,
};
use std::collections::{HashMap, HashSet};
use std::iter::successors;
use std::sync::Arc;

/// How the namespace of an MPI job begins that its runtime does not name; the process id of the
/// runtime's proxy on this node follows.
const HYDRA: &str = "hydra-";

/// The membership of one process.
#[derive(Clone, Debug)]
struct JobEntry {
    origin: Option<Arc<Origin>>,
    /// The origin, its own or that of an ancestor, whose environment names its job.
    environ: Option<Arc<Origin>>,
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
        for process in parents_first(&sample.processes) {
            match &process.text.origin {
                Some(origin) => self.read(process, origin, at),
                None => self.inherit(process, at),
            }
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

    /// The rank of a process that begins a program, before a sample of all processes has it.
    pub fn rank_of_new(&mut self, process: &Process) -> Option<Rank> {
        let origin = process.text.origin.as_ref()?;
        self.entry(process, origin, Ns(0)).membership.rank.clone()
    }

    /// The ranks.
    pub const fn registry(&self) -> &RankRegistry {
        &self.registry
    }

    /// The ranks, to register some.
    pub const fn registry_mut(&mut self) -> &mut RankRegistry {
        &mut self.registry
    }

    fn read(&mut self, process: &Process, origin: &Arc<Origin>, at: Ns) {
        let known = self.known.get_mut(&process.id);
        match known.filter(|it| it.origin.as_ref().is_some_and(|it| Arc::ptr_eq(it, origin))) {
            Some(known) => known.mark_sampled(at),
            None => {
                let entry = self.entry(process, origin, at);
                self.insert(process.id, entry);
            }
        }
        let rank = self.known.get(&process.id).and_then(|known| known.membership.rank.as_ref());
        self.registry.update(process.id, rank);
    }

    /// The membership from an origin, with the environment of the parent if it has none.
    fn entry(&mut self, process: &Process, origin: &Arc<Origin>, at: Ns) -> JobEntry {
        let before = self.known.get(&process.id).or_else(|| self.parent_entry(process));
        let environ = match before {
            Some(before) if origin.environ.is_empty() => before.environ.clone(),
            _ => Some(Arc::clone(origin)),
        };
        let variables = environ.as_ref().map_or(&origin.environ, |it| &it.environ);
        let mut membership = Membership::from_parts(&origin.cgroups, variables);
        if membership.rank.is_none() {
            membership.rank = self.unnamed_rank(process, variables);
        }
        let membership = self.share(membership);
        let (origin, job) = (Some(Arc::clone(origin)), membership.job());
        JobEntry { origin, environ, membership, job, sampled: at, missing: None }
    }

    /// The rank of a process whose runtime names no job (Hydra of MPICH): the processes that one
    /// proxy of the runtime has started are a namespace, and their children have their rank.
    fn unnamed_rank(&self, process: &Process, environ: &Environ) -> Option<Rank> {
        let rank = unnamed_rank(environ)?;
        let of_same_rank = |it: &&Rank| it.rank == rank && it.namespace.starts_with(HYDRA);
        let known = self.known.get(&process.id).or_else(|| self.parent_entry(process));
        if let Some(known) = known.and_then(|it| it.membership.rank.as_ref()).filter(of_same_rank) {
            return Some(known.clone());
        }
        // Process 1 is the parent of those whose proxy has ended.
        let proxy = self.parent(process).filter(|it| it.pid != Pid(1))?;
        Some(Rank { namespace: format!("{HYDRA}{}", proxy.pid.0).into(), rank })
    }

    fn parent(&self, process: &Process) -> Option<Identity> {
        process.parent.or_else(|| self.parents.parent(process))
    }

    fn parent_entry(&self, process: &Process) -> Option<&JobEntry> {
        self.known.get(&self.parent(process)?)
    }

    /// Keeps the membership of a known process; a new one gets that of its parent.
    fn inherit(&mut self, process: &Process, at: Ns) {
        if let Some(known) = self.known.get_mut(&process.id) {
            known.mark_sampled(at);
            return;
        }
        if let Some(known) = self.parent_entry(process) {
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

/// Processes in an order in which each comes after its parent: that is older, or has started in the
/// same tick of the clock, and has the lower process id unless the ids began again in between.
fn parents_first(processes: &[Process]) -> Vec<&Process> {
    let mut all: Vec<_> = processes.iter().collect();
    all.sort_by_key(|it| it.id.start);
    for tied in all.chunk_by_mut(|one, other| one.id.start == other.id.start) {
        let is_before_parent = |it: &&Process| parent_pid(it) > Some(it.id.pid);
        if tied.len() > 1 && tied.iter().any(is_before_parent) {
            let parents: HashMap<Pid, Pid> =
                tied.iter().filter_map(|it| Some((it.id.pid, parent_pid(it)?))).collect();
            let depth = |process: &Process| {
                let next = |pid: &Pid| parents.get(pid).copied();
                // A circle would be one of damaged rows.
                successors(Some(process.id.pid), next).take(parents.len() + 1).count()
            };
            tied.sort_by_cached_key(|it| depth(it));
        }
    }
    all
}

/// The note about environments that were too long to be read whole.
fn cut(processes: &[Process]) -> Option<Note> {
    let is_cut = |it: &&Process| it.text.origin.as_ref().is_some_and(|it| it.environ.cut);
    let count = processes.iter().filter(is_cut).count();
    (count > 0).then(|| {
        Note::remark(format!(
            "environment of {count} processes truncated: the rest may name their job"
        ))
        .about(NoteAbout::Fields(&[ProcessField::Job]))
    })
}

/// The note about ranks that did not fit into the registry.
fn refused(count: u64) -> Option<Note> {
    let text = format!("{count} ranks not registered: the limit is {MAX_RANKS} processes");
    (count > 0).then(|| Note::remark(text).about(NoteAbout::Fields(&[ProcessField::Job])))
}
