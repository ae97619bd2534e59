//! The memberships of all processes, kept from sample to sample.
//!
//! In: samples of all processes, with their origins as far as they could be read. Out: the
//! membership of each process and its text `job`. One whose origin was not read (it ended too
//! soon) belongs where the process belongs that made it.

use super::registry::MOST_RANKS;
use super::{Membership, Registry};
use crate::kin::{FINAL_RECORD_WITHIN, Kin};
use monitor_model::id::{Identity, Ns};
use monitor_model::job::Origin;
use monitor_model::sample::{Note, Process, Sample};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What is known of one process.
#[derive(Clone, Debug)]
struct Known {
    origin: Option<Arc<Origin>>,
    membership: Arc<Membership>,
    job: Option<Arc<str>>,
    /// With which sample it was last there.
    seen: Ns,
    /// Since when it is missing.
    missing: Option<Ns>,
}

impl Known {
    fn see(&mut self, at: Ns) {
        (self.seen, self.missing) = (at, None);
    }
}

/// The memberships of the processes of a node.
#[derive(Debug, Default)]
pub struct Jobs {
    known: HashMap<Identity, Known>,
    kin: Kin,
    /// Memberships that several processes share, so that each is kept once.
    shared: HashSet<Arc<Membership>>,
    registry: Registry,
}

impl Jobs {
    /// Takes in a sample, and tells each of its processes its job.
    pub fn learn(&mut self, sample: &mut Sample) {
        let at = sample.at.boot;
        for process in sample.processes.iter().filter(|it| it.text.origin.is_some()) {
            self.read(process, at);
        }
        // A parent is older than its children: what it belongs to is known before they ask.
        let mut others: Vec<_> =
            sample.processes.iter().filter(|it| it.text.origin.is_none()).collect();
        others.sort_by_key(|it| it.id.start);
        for process in others {
            self.inherit(process, at);
        }
        for process in &mut sample.processes {
            // A recording tells the job itself, and nothing to make it out by.
            let told = process.text.job.take();
            let known = self.known.get(&process.id);
            process.text.job = known.and_then(|known| known.job.clone()).or(told);
            process.text.rank = self.registry.rank(process.id).cloned().map(Arc::new);
            if process.ended() {
                self.registry.remove(process.id);
            }
        }
        sample.notes.extend(cut(&sample.processes));
        sample.notes.extend(refused(self.registry.refused()));
        self.forget(at);
    }

    /// What a process belongs to.
    pub fn of(&self, id: Identity) -> Option<&Membership> {
        self.known.get(&id).map(|known| &*known.membership)
    }

    /// The ranks.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The ranks, to register some.
    pub const fn registry_mut(&mut self) -> &mut Registry {
        &mut self.registry
    }

    fn read(&mut self, process: &Process, at: Ns) {
        let Some(origin) = &process.text.origin else { return };
        let known = self.known.get_mut(&process.id);
        match known.filter(|it| it.origin.as_ref().is_some_and(|it| Arc::ptr_eq(it, origin))) {
            Some(known) => known.see(at),
            None => {
                let membership = self.share(Membership::of(origin));
                let (origin, job) = (Some(origin.clone()), membership.job());
                let known = Known { origin, membership, job, seen: at, missing: None };
                self.hold(process.id, known);
            }
        }
        let rank = self.known.get(&process.id).and_then(|known| known.membership.rank.as_ref());
        self.registry.see(process.id, rank);
    }

    /// What it was known to belong to stays; else it is that of its parent.
    fn inherit(&mut self, process: &Process, at: Ns) {
        if let Some(known) = self.known.get_mut(&process.id) {
            known.see(at);
            return;
        }
        let parent = process.parent.or_else(|| self.kin.parent(process));
        if let Some(known) = parent.and_then(|parent| self.known.get(&parent)) {
            let known = Known { origin: None, seen: at, missing: None, ..known.clone() };
            self.hold(process.id, known);
        }
    }

    fn hold(&mut self, id: Identity, known: Known) {
        self.known.insert(id, known);
        self.kin.see(id);
    }

    fn share(&mut self, membership: Membership) -> Arc<Membership> {
        if let Some(known) = self.shared.get(&membership) {
            return Arc::clone(known);
        }
        let membership = Arc::new(membership);
        self.shared.insert(Arc::clone(&membership));
        membership
    }

    /// A rank that is gone is none any more; what it belonged to is remembered for a time.
    fn forget(&mut self, at: Ns) {
        let (registry, kin) = (&mut self.registry, &mut self.kin);
        self.known.retain(|id, known| {
            if known.seen == at {
                return true;
            }
            registry.remove(*id);
            let missing = *known.missing.get_or_insert(at);
            let stays = at.since(missing) <= FINAL_RECORD_WITHIN;
            if !stays {
                kin.forget(*id);
            }
            stays
        });
        self.shared.retain(|membership| Arc::strong_count(membership) > 1);
    }
}

/// Says of how many processes the environment was too long to be read whole.
fn cut(processes: &[Process]) -> Option<Note> {
    let is_cut = |it: &&Process| it.text.origin.as_ref().is_some_and(|it| it.environ.cut);
    let count = processes.iter().filter(is_cut).count();
    (count > 0).then(|| {
        Note::remark(format!(
            "environment of {count} processes read in part: its end may name their job"
        ))
    })
}

/// Says how many ranks cannot be found by their namespace.
fn refused(count: u64) -> Option<Note> {
    let text = format!("{count} ranks not registered: {MOST_RANKS} processes are held");
    (count > 0).then(|| Note::remark(text))
}
