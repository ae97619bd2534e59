//! The sets of processes that programs are for: one for each session, and for each that is named.

use crate::rule_runner::RuleTargets;
use crate::poller;
use monitor_backend::rule::insn::ProcessSetId;
use monitor_backend::rule::{Children, RuleResource, Rules};
use monitor_event::outcome::Refusal;
use monitor_model::id::Identity;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

/// All sets, by what they are for.
#[derive(Default)]
pub struct ProcessSets(BTreeMap<RuleTargets, (ProcessSetId, BTreeSet<Identity>)>);

/// What a set is for: whoever a session observes is one set, whoever that is now.
pub fn set_key(whose: &RuleTargets) -> RuleTargets {
    match whose {
        RuleTargets::Attached(session, _) => RuleTargets::Attached(*session, BTreeSet::new()),
        other => other.clone(),
    }
}

/// The processes themselves; nothing, if nobody in particular is meant.
pub const fn processes(whose: &RuleTargets) -> Option<&BTreeSet<Identity>> {
    match whose {
        RuleTargets::Any => None,
        RuleTargets::Attached(_, these) | RuleTargets::Processes(these) => Some(these),
    }
}

impl ProcessSets {
    /// The set of these; none, if nobody in particular is meant.
    pub fn get(&self, whose: &RuleTargets) -> Option<ProcessSetId> {
        self.0.get(&set_key(whose)).map(|(set, _)| *set)
    }

    /// Makes one, unless there is one, with these in it.
    pub fn make(&mut self, whose: &RuleTargets, rules: &mut dyn Rules) -> Result<(), Refusal> {
        let children = match whose {
            RuleTargets::Any => return Ok(()),
            RuleTargets::Attached(..) => Children::Included,
            RuleTargets::Processes(_) => Children::NotIncluded,
        };
        if let Entry::Vacant(place) = self.0.entry(set_key(whose)) {
            let set = rules.make_set(children).map_err(poller::backend_refusal)?;
            let _new = place.insert((set, BTreeSet::new()));
        }
        self.update(whose, rules);
        Ok(())
    }

    /// Has these in their set, and nobody else.
    pub fn update(&mut self, whose: &RuleTargets, rules: &mut dyn Rules) {
        let Some(wanted) = processes(whose) else { return };
        let Some((set, there)) = self.0.get_mut(&set_key(whose)) else { return };
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

    /// Gives back those that nobody uses.
    pub fn free_all_but<'w>(
        &mut self,
        used: impl Iterator<Item = &'w RuleTargets>,
        rules: &mut dyn Rules,
    ) {
        let used: BTreeSet<RuleTargets> = used.map(set_key).collect();
        self.0.retain(|key, (set, _)| {
            let is_used = used.contains(key);
            if !is_used {
                rules.free(RuleResource::Set(*set));
            }
            is_used
        });
    }
}
