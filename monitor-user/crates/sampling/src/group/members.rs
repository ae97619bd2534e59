//! Which group each process is in.
//!
//! In: samples, what the groups are made by, and which processes count. Out: for each process the
//! name of the group that it belongs to, and the one that it was put in. A process whose text is
//! not known stays where it was; one that was never known belongs where its parent belongs.

use super::rule::GroupRules;
use crate::delta::Deltas;
use crate::filter::Filter;
use crate::job;
use crate::parents::ParentIndex;
use monitor_model::field::ProcessField;
use monitor_model::group::{GroupBy, NONE};
use monitor_model::id::Identity;
use monitor_model::sample::{Process, Sample};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where one process belongs.
#[derive(Debug)]
struct Place {
    /// The name of its group; absent where it does not count.
    named: Option<Arc<str>>,
    /// The group that it was put in: another one, where there was no room.
    put: Option<Arc<str>>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Members {
    places: HashMap<Identity, Place>,
    kin: ParentIndex,
    rules: GroupRules,
}

impl Members {
    /// What a rule names, and by what the others are named.
    pub fn ruled(rules: GroupRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Takes in the processes of a sample.
    pub fn learn(&mut self, by: GroupBy, sample: &Sample, filter: &Filter) {
        let mut unnamed = Vec::new();
        for process in &sample.processes {
            self.kin.insert(process.id);
            match self.rules.name(process).or_else(|| name(by, process)) {
                Some(name) => self.name(process.id, filter.admits(process).then_some(name)),
                None => unnamed.push(process),
            }
        }
        // Parents are older: they have their names before their children ask.
        unnamed.sort_by_key(|process| process.id.start);
        for process in unnamed.into_iter() {
            if self.places.contains_key(&process.id) {
                continue;
            }
            let parent = process.parent.or_else(|| self.kin.parent(process));
            let place = parent.and_then(|parent| self.places.get(&parent));
            let name = match place {
                Some(place) => place.named.clone(),
                None => filter.admits(process).then(|| NONE.into()),
            };
            self.name(process.id, name);
        }
    }

    /// The name of the group of a process that counts.
    pub fn of(&self, id: Identity) -> Option<Arc<str>> {
        self.places.get(&id)?.named.clone()
    }

    /// Whether something may still be told of it.
    pub fn knows(&self, id: Identity) -> bool {
        self.places.contains_key(&id)
    }

    /// The group that a process was put in.
    pub fn put_in(&self, id: Identity) -> Option<&Arc<str>> {
        self.places.get(&id)?.put.as_ref()
    }

    /// Puts a process into a group.
    pub fn put(&mut self, id: Identity, group: Arc<str>) {
        if let Some(place) = self.places.get_mut(&id) {
            place.put = Some(group);
        }
    }

    /// Forgets the processes that nothing more will be told of.
    pub fn forget(&mut self, growths: &Deltas) {
        let there: HashSet<_> = growths.accounts().map(|(id, _)| id).collect();
        let kin = &mut self.kin;
        self.rules.retain(|id| there.contains(id));
        self.places.retain(|id, _| {
            let stays = there.contains(id);
            if !stays {
                kin.remove(*id);
            }
            stays
        });
    }

    fn name(&mut self, id: Identity, name: Option<Arc<str>>) {
        let place = self.places.entry(id).or_insert(Place { named: None, put: None });
        if name.is_none() {
            place.put = None;
        }
        place.named = name;
    }
}

/// What the groups are made by, of one process; absent where it could not be read.
fn name(by: GroupBy, process: &Process) -> Option<Arc<str>> {
    match by {
        // One whose origin was read and tells of no job is of none, whatever its parent is of.
        GroupBy::Job => {
            process.text.job.clone().or_else(|| process.text.origin.as_ref().map(|_| NONE.into()))
        }
        GroupBy::Cgroup => process.text.cgroup.clone(),
        // One whose cgroup was read and is of no container is in none.
        GroupBy::Container => {
            let cgroup = process.text.cgroup.as_deref()?;
            Some(job::container(cgroup).unwrap_or_else(|| NONE.into()))
        }
        GroupBy::User => process.text.user.clone().or_else(|| {
            let uid = process.row.get(ProcessField::Uid)?;
            Some(uid.to_string().into())
        }),
        GroupBy::Comm | GroupBy::Rule => Some(process.comm().into()),
    }
}
