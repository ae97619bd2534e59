//! Libraries that watched processes load: where the tool of a rule may control the process, its
//! thread is held until the functions of the rule have their probes.
//!
//! In: rules, and the functions that processes lack. Out: how each process is held.

use super::super::Linux;
use super::super::user_workers::StopMode;
use monitor_event::right::Tool;
use monitor_model::{Identity, Ns};
use std::collections::{BTreeMap, BTreeSet};

impl Linux {
    /// Releases the threads whose processes were scanned, and holds those that lack a function.
    pub(in crate::linux) fn update_load_holds(&mut self, now: Ns) {
        let Some(rule_events) = &mut self.rule_events else { return };
        for pid in self.workers.take_expired_loads() {
            rule_events.taps.load_stop_ended(pid);
        }
        let scanned = rule_events.taps.take_scanned();
        self.workers.release_loads(&scanned, now);
        let wanted = rule_events.wanted_loads();
        let new = wanted.iter().filter(|(id, _)| !self.workers.is_load_target(**id));
        let mut by_tool: BTreeMap<_, (Tool, BTreeSet<Identity>)> = BTreeMap::new();
        for (id, tool) in new {
            let fresh = || (*tool, BTreeSet::new());
            let _new = by_tool.entry(tool.session).or_insert_with(fresh).1.insert(*id);
        }
        let mut denied = BTreeSet::new();
        for (tool, ids) in by_tool.into_values() {
            let modes = self.stop_modes(&tool, &ids).into_iter();
            denied.extend(modes.filter(|(_, it)| *it == StopMode::Denied).map(|(id, _)| id));
        }
        self.workers.set_load_targets(&wanted, &denied);
        if let (Some(traced), Some(rule_events)) =
            (self.workers.take_load_traced(), &mut self.rule_events)
        {
            rule_events.taps.set_traced(traced);
        }
    }
}
