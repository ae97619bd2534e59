//! The group of each process.
//!
//! In: samples, the property that groups are formed by, and a filter. Out: for each process the
//! name of its group, and the group that it was assigned to. A process with an unknown text stays
//! in its group; one that never had a known text belongs to the group of its parent.

use super::rule::GroupRules;
use crate::{delta::Deltas, filter::Filter, job, parents::ParentIndex};
use monitor_model::{GroupBy, Identity, Process, ProcessField, Sample, group::NONE};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The group of one process.
#[derive(Debug, Default)]
struct Member {
    /// The name of its group; absent if the filter does not admit it.
    named: Option<Arc<str>>,
    /// The group that it was assigned to: another one if the limit was reached.
    assigned: Option<Arc<str>>,
}

/// The groups of all processes.
#[derive(Debug, Default)]
pub struct Members {
    members: HashMap<Identity, Member>,
    parents: ParentIndex,
    rules: GroupRules,
}

impl Members {
    /// Members whose groups are named by rules first.
    pub fn with_rules(rules: GroupRules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Adds the processes of a sample.
    pub fn learn(&mut self, by: GroupBy, sample: &Sample, filter: &Filter) {
        let mut unnamed = Vec::new();
        for process in &sample.processes {
            self.parents.insert(process.id);
            match self.rules.name(process).or_else(|| name(by, process)) {
                Some(name) => self.name(process.id, filter.admits(process).then_some(name)),
                None => unnamed.push(process),
            }
        }
        // Parents are older: they have their names before their children ask.
        unnamed.sort_by_key(|process| process.id.start);
        for process in unnamed {
            if self.members.contains_key(&process.id) {
                continue;
            }
            let parent = process.parent.or_else(|| self.parents.parent(process));
            let member = parent.and_then(|parent| self.members.get(&parent));
            let name = match member {
                Some(member) => member.named.clone(),
                None => filter.admits(process).then(|| NONE.into()),
            };
            self.name(process.id, name);
        }
    }

    /// The name of the group of a process; `None` if the filter does not admit it.
    pub fn group_name(&self, id: Identity) -> Option<Arc<str>> {
        self.members.get(&id)?.named.clone()
    }

    /// Whether it may still have usage to report.
    pub fn knows(&self, id: Identity) -> bool {
        self.members.contains_key(&id)
    }

    /// The group that a process was assigned to.
    pub fn assigned(&self, id: Identity) -> Option<&Arc<str>> {
        self.members.get(&id)?.assigned.as_ref()
    }

    /// Assigns a process to a group.
    pub fn assign(&mut self, id: Identity, group: Arc<str>) {
        if let Some(member) = self.members.get_mut(&id) {
            member.assigned = Some(group);
        }
    }

    /// Removes the processes that have no account.
    pub fn forget(&mut self, deltas: &Deltas) {
        let there: HashSet<_> = deltas.accounts().map(|(id, _)| id).collect();
        let parents = &mut self.parents;
        self.rules.retain(|id| there.contains(id));
        self.members.retain(|id, _| {
            let stays = there.contains(id);
            if !stays {
                parents.remove(*id);
            }
            stays
        });
    }

    fn name(&mut self, id: Identity, name: Option<Arc<str>>) {
        let member = self.members.entry(id).or_default();
        if name.is_none() {
            member.assigned = None;
        }
        member.named = name;
    }
}

/// The name of the group of a process; `None` if it could not be read.
fn name(by: GroupBy, process: &Process) -> Option<Arc<str>> {
    match by {
        // A process whose origin is known and that has no job is in none.
        GroupBy::Job => {
            process.text.job.clone().or_else(|| process.text.origin.as_ref().map(|_| NONE.into()))
        }
        GroupBy::Cgroup => process.text.cgroup.clone(),
        // A process whose cgroup is known and is not that of a container is in none.
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
