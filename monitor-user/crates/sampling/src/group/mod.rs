//! Processes by job, user, command or cgroup, with totals that never go backwards.
//!
//! In: samples of all processes with the texts that the groups need, and a filter. Out: the groups
//! of each sample. Usage of ended processes stays in their group; a process that moves to another
//! group counts there from then on. A group whose processes are all gone is kept for a time, then
//! reported for the last time and removed.

mod members;
pub mod rule;
mod slot;
#[cfg(test)]
mod tests;

use self::{members::Members, rule::GroupRules, slot::Slot};
use super::delta::{Deltas, State};
use super::order::{self, Order};
use super::{filter::Filter, latency_deltas::LatencyDeltas};
use monitor_model::group::{NONE, OTHER};
use monitor_model::{Group, GroupBy, GroupField, Grouped, Identity, Ns, Sample};
use std::{collections::HashMap, sync::Arc};

/// Default maximum number of groups: more than the jobs or users of a node.
pub const MOST_GROUPS: usize = 4096;
/// How long a group without processes is kept by default.
pub const KEPT: Ns = Ns(300_000_000_000);

/// Limits of the number of groups and of their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Maximum number of groups; processes of further ones count in the group [`OTHER`].
    pub groups: usize,
    /// How long a group is kept after its last process.
    pub keep: Ns,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self { groups: MOST_GROUPS, keep: KEPT }
    }
}

/// The groups of a node.
#[derive(Debug, Default)]
pub struct Groups {
    by: GroupBy,
    /// What names the group of a process without a matching rule.
    named_by: GroupBy,
    limits: GroupLimits,
    deltas: Deltas,
    latency_deltas: LatencyDeltas,
    members: Members,
    slots: HashMap<Arc<str>, Slot>,
    /// Time of the previous sample.
    before: Option<Ns>,
}

impl Groups {
    /// Without processes.
    pub fn new(by: GroupBy, limits: GroupLimits) -> Self {
        Self { by, named_by: by, limits, ..Self::default() }
    }

    /// The same with rules; they name the groups of the processes that they match.
    pub fn with_rules(by: GroupBy, limits: GroupLimits, rules: GroupRules) -> Self {
        let shown_by = if rules.is_empty() { by } else { GroupBy::Rule };
        Self { by: shown_by, members: Members::with_rules(rules), ..Self::new(by, limits) }
    }

    /// The property that the groups are formed by.
    pub const fn by(&self) -> GroupBy {
        self.by
    }

    /// The name of the group that a process counts in.
    pub fn group_of(&self, id: Identity) -> Option<&Arc<str>> {
        self.members.assigned(id)
    }

    /// Adds a sample of all processes; returns the groups of those that the filter admits, by name.
    pub fn learn(&mut self, sample: &Sample, filter: &Filter) -> Grouped {
        let now = sample.at.boot;
        self.deltas.learn(sample);
        self.latency_deltas.learn(&sample.processes);
        self.members.learn(self.named_by, sample, filter);
        self.slots.values_mut().for_each(Slot::begin);
        self.assign_groups(sample);
        self.credit();
        let interval = self.before.replace(now).map(|before| now.since(before));
        for slot in self.slots.values_mut() {
            slot.finish(now, interval);
        }
        let finished = self.retire(now);
        let members = &mut self.members;
        members.forget(&self.deltas);
        self.latency_deltas.retain(|id| members.knows(*id));
        Grouped { by: self.by, groups: self.current(), finished }
    }

    /// Finds a group for each process, and adds its gauges.
    fn assign_groups(&mut self, sample: &Sample) {
        for process in &sample.processes {
            let Some(name) = self.members.group_name(process.id) else { continue };
            let name = self.group_or_other(name);
            let slot = self.slots.entry(Arc::clone(&name)).or_insert_with(|| {
                Slot::new(Group { by: self.by, name: Arc::clone(&name), ..Group::default() })
            });
            slot.add_process(process, sample.at.boot);
            self.members.assign(process.id, name);
        }
    }

    /// The group of that name, or the one for all others if the limit is reached.
    fn group_or_other(&self, name: Arc<str>) -> Arc<str> {
        let named = |name: &Arc<str>| ![NONE, OTHER].contains(&&**name);
        if self.slots.contains_key(&name) || !named(&name) {
            return name;
        }
        let held = self.slots.keys().filter(|name| named(name)).count();
        if held < self.limits.groups { name } else { OTHER.into() }
    }

    /// Adds what each process used since the previous sample to its current group.
    fn credit(&mut self) {
        for (id, account) in self.deltas.accounts() {
            let Some(slot) = self.members.assigned(id).and_then(|name| self.slots.get_mut(name))
            else {
                continue;
            };
            for (field, grown) in account.deltas() {
                slot.group.row.add(field, grown);
            }
            match account.state {
                State::Living => slot.add_living(),
                State::Dying => slot.add_dying(),
                State::Ended => slot.end(GroupField::Ended),
                State::Lost => slot.end(GroupField::Lost),
            }
        }
        for (id, grown) in self.latency_deltas.deltas() {
            let slot = self.members.assigned(*id).and_then(|name| self.slots.get_mut(name));
            slot.into_iter().for_each(|slot| slot.group.latencies.merge(grown));
        }
    }

    /// Removes the groups that have been empty for long enough.
    fn retire(&mut self, now: Ns) -> Vec<Group> {
        let keep = self.limits.keep;
        let over = self.slots.extract_if(|_, slot| slot.is_over(now, keep));
        let mut finished: Vec<_> = over.map(|(_, slot)| slot.group).collect();
        finished.sort_by(|a, b| a.name.cmp(&b.name));
        finished
    }

    fn current(&self) -> Vec<Group> {
        let mut groups: Vec<_> = self.slots.values().map(|slot| slot.group.clone()).collect();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        groups
    }
}

/// Sorts the groups to show, and keeps the first ones.
pub fn arrange(groups: &mut Vec<Group>, order: Option<Order>, top: Option<usize>) {
    let key = |(index, group): (usize, &Group)| match order {
        Some(order) => order.key_of(&group.row, index),
        None => (false, 0, index),
    };
    let mut keys = groups.iter().enumerate().map(key).collect();
    order::first(&mut keys, top);
    *groups = keys.iter().map(|key| groups[key.2].clone()).collect();
}
