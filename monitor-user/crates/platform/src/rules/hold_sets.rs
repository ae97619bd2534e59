//! The sets by which a program knows how to hold who meets its event: for each user, the processes
//! that his hand traces, and those that a signal may stop.

use crate::poller;
use monitor_backend::rule::insn::{ProcessSetId, StopSets};
use monitor_backend::rule::{Children, RuleResource, Rules};
use monitor_event::outcome::Refusal;
use monitor_model::id::Pid;
use std::collections::{BTreeMap, BTreeSet};

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
        // A child is another process: a hand is asked for it first.
        let mut set = || rules.make_set(Children::NotIncluded).map_err(poller::backend_refusal);
        let traced = set()?;
        let stoppable = set().inspect_err(|_| rules.free(RuleResource::Set(traced)))?;
        let holding = StopSets { traced, stoppable };
        let (traced, stoppable) = (BTreeSet::new(), BTreeSet::new());
        let _none = self.0.insert(uid, UserSets { holding, traced, stoppable });
        Ok(holding)
    }

    /// Has these in them, and nobody else.
    pub fn update(&mut self, held: &HoldableProcesses, rules: &mut dyn Rules) {
        let nobody = (BTreeSet::new(), BTreeSet::new());
        for (uid, sets) in &mut self.0 {
            let (traced, stoppable) = held.get(uid).unwrap_or(&nobody);
            // Who is traced no more may be stopped before that, and after.
            change(sets.holding.traced, (&sets.traced, traced), rules);
            change(sets.holding.stoppable, (&sets.stoppable, stoppable), rules);
            (sets.traced, sets.stoppable) = (traced.clone(), stoppable.clone());
        }
    }

    /// Gives back those of users of whom no program holds anybody.
    pub fn free_all_but(&mut self, uids: &BTreeSet<u32>, rules: &mut dyn Rules) {
        self.0.retain(|uid, sets| {
            let is_used = uids.contains(uid);
            if !is_used {
                rules.free(RuleResource::Set(sets.holding.traced));
                rules.free(RuleResource::Set(sets.holding.stoppable));
            }
            is_used
        });
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
