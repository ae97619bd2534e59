//! The process sets of rules: one for each session and each named group of processes, and for each
//! user, the processes that the user's worker traces and those that a signal may stop.

use crate::{RuleTargets, poller::backend_refusal};
use monitor_backend::rule::insn::{ProcessSetId, StopSets};
use monitor_backend::rule::{Children, RuleResource, Rules};
use monitor_event::outcome::Refusal;
use monitor_model::{Identity, Pid};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// All sets, by what they are for.
#[derive(Default)]
pub struct ProcessSets(BTreeMap<RuleTargets, (ProcessSetId, BTreeSet<Identity>)>);

/// The key of a set: the processes of a session are one set, whichever they are now.
pub fn set_key(targets: &RuleTargets) -> RuleTargets {
    match targets {
        RuleTargets::Attached(session, _) => RuleTargets::Attached(*session, BTreeSet::new()),
        other => other.clone(),
    }
}

/// The processes; nothing, if the rule is for no particular ones.
pub const fn processes(targets: &RuleTargets) -> Option<&BTreeSet<Identity>> {
    match targets {
        RuleTargets::Any => None,
        RuleTargets::Attached(_, these) | RuleTargets::Processes(these) => Some(these),
    }
}

impl ProcessSets {
    /// The set of these; none, if the rule is for no particular processes.
    pub fn get(&self, targets: &RuleTargets) -> Option<ProcessSetId> {
        self.0.get(&set_key(targets)).map(|(set, _)| *set)
    }

    /// Makes one, unless there is one, with these in it.
    pub fn make(&mut self, targets: &RuleTargets, rules: &mut dyn Rules) -> Result<(), Refusal> {
        let children = match targets {
            RuleTargets::Any => return Ok(()),
            RuleTargets::Attached(..) => Children::Included,
            RuleTargets::Processes(_) => Children::NotIncluded,
        };
        if let Entry::Vacant(place) = self.0.entry(set_key(targets)) {
            let set = rules.make_set(children).map_err(backend_refusal)?;
            let _new = place.insert((set, BTreeSet::new()));
        }
        self.update(targets, rules);
        Ok(())
    }

    /// Puts exactly these processes into their set.
    pub fn update(&mut self, targets: &RuleTargets, rules: &mut dyn Rules) {
        let Some(wanted) = processes(targets) else { return };
        let Some((set, there)) = self.0.get_mut(&set_key(targets)) else { return };
        for gone in there.difference(wanted) {
            rules.exclude(*set, gone.pid);
        }
        for came in wanted.difference(there) {
            if let Err(error) = rules.include(*set, came.pid) {
                tracing::warn!(pid = came.pid.0, %error, "requests do not see it");
            }
        }
        there.clone_from(wanted);
    }

    /// Frees the sets that no rule uses.
    pub fn free_all_but<'w>(
        &mut self,
        used: impl Iterator<Item = &'w RuleTargets>,
        rules: &mut dyn Rules,
    ) {
        let used: BTreeSet<RuleTargets> = used.map(set_key).collect();
        for (_, (set, _)) in self.0.extract_if(.., |key, _| !used.contains(key)) {
            rules.free(RuleResource::Set(set));
        }
    }
}

/// The processes of each user: those that are traced, and all that may be stopped.
pub type HoldableProcesses = BTreeMap<u32, (BTreeSet<Pid>, BTreeSet<Pid>)>;

/// All sets.
#[derive(Default)]
pub struct HoldSets(BTreeMap<u32, UserSets>);

struct UserSets {
    holding: StopSets,
    traced: BTreeSet<Pid>,
    stoppable: BTreeSet<Pid>,
}

impl HoldSets {
    /// Those of a user; they are made, if they are new.
    pub fn for_user(&mut self, uid: u32, rules: &mut dyn Rules) -> Result<StopSets, Refusal> {
        if let Some(sets) = self.0.get(&uid) {
            return Ok(sets.holding);
        }
        // A child is another process: the worker is asked for it first.
        let mut set = || rules.make_set(Children::NotIncluded).map_err(backend_refusal);
        let traced = set()?;
        let stoppable = set().inspect_err(|_| rules.free(RuleResource::Set(traced)))?;
        let holding = StopSets { traced, stoppable };
        let (traced, stoppable) = (BTreeSet::new(), BTreeSet::new());
        let _none = self.0.insert(uid, UserSets { holding, traced, stoppable });
        Ok(holding)
    }

    /// Puts exactly these processes into the sets.
    pub fn update(&mut self, held: &HoldableProcesses, rules: &mut dyn Rules) {
        let none = (BTreeSet::new(), BTreeSet::new());
        for (uid, sets) in &mut self.0 {
            let (traced, stoppable) = held.get(uid).unwrap_or(&none);
            // A process that is no longer traced may be stopped before that, and after.
            change(sets.holding.traced, (&sets.traced, traced), rules);
            change(sets.holding.stoppable, (&sets.stoppable, stoppable), rules);
            (sets.traced, sets.stoppable) = (traced.clone(), stoppable.clone());
        }
    }

    /// Frees the sets of all users but these.
    pub fn free_all_but(&mut self, uids: &BTreeSet<u32>, rules: &mut dyn Rules) {
        for (_, sets) in self.0.extract_if(.., |uid, _| !uids.contains(uid)) {
            rules.free(RuleResource::Set(sets.holding.traced));
            rules.free(RuleResource::Set(sets.holding.stoppable));
        }
    }
}

fn change(set: ProcessSetId, (old, new): (&BTreeSet<Pid>, &BTreeSet<Pid>), rules: &mut dyn Rules) {
    for gone in old.difference(new) {
        rules.exclude(set, *gone);
    }
    for came in new.difference(old) {
        if let Err(error) = rules.include(set, *came) {
            tracing::warn!(pid = came.0, %error, "its events do not hold it");
        }
    }
}
