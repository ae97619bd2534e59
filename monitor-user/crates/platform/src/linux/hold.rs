//! Who is held at events of programs: between the kernel, which stops, and the hands, which hold.

use super::Linux;
use super::user_workers::{StopMode, StopPolicy};
use crate::{PlatformEvent, Processes as _};
use monitor_event::right::Right;
use monitor_event::right::Tool;
use monitor_model::id::{Identity, Ns};
use std::collections::{BTreeMap, BTreeSet};

impl Linux {
    /// Has the hands ready for what the programs that are there stop.
    pub(super) fn update_stop_policies(&mut self) {
        let Some(ruled) = &self.rule_events else { return };
        let programs: Vec<_> = ruled.holding_rules();
        let mut wanted = BTreeMap::new();
        for (serial, rule, tool, whom) in programs {
            let on = self.stop_modes(&tool, &whom);
            let _none = wanted.insert(serial, StopPolicy { rule, tool, targets: on });
        }
        self.workers.set_stop_policies(wanted);
        self.update_hold_sets();
    }

    /// Whom a tool may hold; it is not known yet whether his hand can trace them.
    fn stop_modes(&mut self, tool: &Tool, whom: &BTreeSet<Identity>) -> BTreeMap<Identity, StopMode> {
        let pids: Vec<_> = whom.iter().map(|id| id.pid).collect();
        let seen = self.read_processes(&pids).unwrap_or_default();
        let may = |id: &Identity| {
            let it = seen.iter().find(|it| it.id.pid == id.pid);
            it.is_some_and(|it| tool.may(Right::Control, it).is_ok())
        };
        let manner = |id: &Identity| if may(id) { StopMode::Signal } else { StopMode::Denied };
        whom.iter().map(|id| (*id, manner(id))).collect()
    }

    /// Tells the programs how processes are held now.
    fn update_hold_sets(&mut self) {
        if let Some(ruled) = &mut self.rule_events {
            ruled.set_hold_sets(&self.workers.holdable_processes());
        }
    }

    /// The events of programs whose threads stand, once the kernel and the hands were heard.
    pub(super) fn held_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        if self.workers.take_policy_change() {
            self.update_hold_sets();
        }
        let Some(ruled) = &mut self.rule_events else { return Vec::new() };
        let (caught, strays) = ruled.take_stops();
        self.workers.add_pending_stops(caught);
        strays.into_iter().for_each(|id| self.workers.resume_process(id));
        self.workers.match_stops(now)
    }
}
