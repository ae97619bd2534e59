//! Processes by job, user, command or cgroup, with totals that never go backwards.
//!
//! In: samples of all processes whose texts are filled as far as the groups need them, and which
//! of them count. Out: the groups of each sample. What ended processes used stays in their group;
//! what one uses after it moved to another group counts there, what it used before stays. A group
//! whose processes are all gone is kept for a time, then told for the last time and forgotten.

mod members;
pub mod rule;
mod slot;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

use self::members::Members;
use self::rule::GroupRules;
use self::slot::Slot;
use super::delta::{Deltas, State};
use super::filter::Filter;
use super::latency_deltas::LatencyDeltas;
use super::order::{self, Order};
use monitor_model::field::GroupField;
use monitor_model::group::{Group, GroupBy, Grouped, NONE, OTHER};
use monitor_model::id::Ns;
use monitor_model::sample::Sample;
use std::collections::HashMap;
use std::sync::Arc;

/// Most groups unless something else is said: more than the jobs or users of a node.
pub const MOST_GROUPS: usize = 4096;
/// How long a group without processes is kept unless something else is said.
pub const KEPT: Ns = Ns(300_000_000_000);

/// How many groups, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Most groups; processes of further ones count in the group [`OTHER`].
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
#[derive(Debug)]
pub struct Groups {
    by: GroupBy,
    /// What names the group of a process that no rule fits.
    named_by: GroupBy,
    limits: GroupLimits,
    growths: Deltas,
    durations: LatencyDeltas,
    members: Members,
    slots: HashMap<Arc<str>, Slot>,
    /// When the sample before was taken.
    before: Option<Ns>,
}

impl Groups {
    /// No process yet.
    pub fn new(by: GroupBy, limits: GroupLimits) -> Self {
        Self {
            by,
            named_by: by,
            limits,
            growths: Deltas::default(),
            durations: LatencyDeltas::default(),
            members: Members::default(),
            slots: HashMap::new(),
            before: None,
        }
    }

    /// The same; but whom a rule fits, it names.
    pub fn with_rules(by: GroupBy, limits: GroupLimits, rules: GroupRules) -> Self {
        let told_by = if rules.is_empty() { by } else { GroupBy::Rule };
        Self { by: told_by, members: Members::ruled(rules), ..Self::new(by, limits) }
    }

    /// What they are made by.
    pub const fn by(&self) -> GroupBy {
        self.by
    }

    /// Takes in a sample of all processes; gives the groups of those that the filter admits, in
    /// the order of their names.
    pub fn learn(&mut self, sample: &Sample, filter: &Filter) -> Grouped {
        let now = sample.at.boot;
        self.growths.learn(sample);
        self.durations.learn(&sample.processes);
        self.members.learn(self.named_by, sample, filter);
        self.slots.values_mut().for_each(Slot::begin);
        self.place(sample);
        self.credit();
        let interval = self.before.replace(now).map(|before| now.since(before));
        for slot in self.slots.values_mut() {
            slot.finish(now, interval);
        }
        let finished = self.retire(now);
        let members = &mut self.members;
        members.forget(&self.growths);
        self.durations.retain(|id| members.knows(*id));
        Grouped { by: self.by, groups: self.told(), finished }
    }

    /// Finds a group for each process, and adds what it has now.
    fn place(&mut self, sample: &Sample) {
        for process in &sample.processes {
            let Some(name) = self.members.of(process.id) else { continue };
            let name = self.room(name);
            let slot = self.slots.entry(Arc::clone(&name)).or_insert_with(|| {
                Slot::new(Group { by: self.by, name: Arc::clone(&name), ..Group::default() })
            });
            slot.hold(process, sample.at.boot);
            self.members.put(process.id, name);
        }
    }

    /// The group of that name, or the one for all others.
    fn room(&self, name: Arc<str>) -> Arc<str> {
        let named = |name: &Arc<str>| ![NONE, OTHER].contains(&&**name);
        if self.slots.contains_key(&name) || !named(&name) {
            return name;
        }
        let held = self.slots.keys().filter(|name| named(name)).count();
        if held < self.limits.groups { name } else { OTHER.into() }
    }

    /// Adds what each process used since the sample before to the group that it is in now.
    fn credit(&mut self) {
        for (id, account) in self.growths.accounts() {
            let Some(slot) = self.members.put_in(id).and_then(|name| self.slots.get_mut(name))
            else {
                continue;
            };
            for (field, grown) in account.growth() {
                slot.group.row.add(field, grown);
            }
            match account.state {
                State::Living => slot.busy(),
                State::Dying => slot.await_final(),
                State::Ended => slot.end(GroupField::Ended),
                State::Lost => slot.end(GroupField::Lost),
            }
        }
        for (id, grown) in self.durations.growth() {
            let slot = self.members.put_in(*id).and_then(|name| self.slots.get_mut(name));
            slot.into_iter().for_each(|slot| slot.group.latencies.merge(grown));
        }
    }

    /// Takes out the groups that have been empty for long enough.
    fn retire(&mut self, now: Ns) -> Vec<Group> {
        let keep = self.limits.keep;
        let over = self.slots.extract_if(|_, slot| slot.is_over(now, keep));
        let mut finished: Vec<_> = over.map(|(_, slot)| slot.group).collect();
        finished.sort_by(|a, b| a.name.cmp(&b.name));
        finished
    }

    fn told(&self) -> Vec<Group> {
        let mut groups: Vec<_> = self.slots.values().map(|slot| slot.group.clone()).collect();
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        groups
    }
}

/// Puts the groups to show in order, and leaves as many as asked for.
pub fn arrange(groups: &mut Vec<Group>, order: Option<Order>, top: Option<usize>) {
    let key = |(place, group): (usize, &Group)| match order {
        Some(order) => order.key_of(&group.row, place),
        None => (false, 0, place),
    };
    let mut keys = groups.iter().enumerate().map(key).collect();
    order::first(&mut keys, top);
    *groups = keys.iter().map(|key| groups[key.2].clone()).collect();
}
