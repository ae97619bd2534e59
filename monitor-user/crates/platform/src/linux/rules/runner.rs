//! Rules of stored requests on this node: run by the kernel, also at calls, and the stops at their
//! events: between the kernel, which stops, and the user workers, which hold.

use super::super::user_workers::{StopMode, StopPolicy};
use super::{super::Linux, RuleEvents};
use crate::{
    CompiledRules, PlatformEvent, Processes as _, RuleKey, RuleRunner, rules::RuleHost, tap::Taps,
    tap::tap_program::TapProgram,
};
use monitor_backend::{rule::Rules, rule::insn::GaugeChange};
use monitor_event::action::{ExecutionPlace, KernelCounter, KernelCounterValue};
use monitor_event::right::{Right, Tool};
use monitor_event::{outcome::Refusal, trace::Trace};
use monitor_model::{Identity, Ns};
use monitor_sys::clock;
use std::collections::{BTreeMap, BTreeSet};

impl RuleHost for Taps {
    fn rules(&mut self) -> &mut dyn Rules {
        self.rules()
    }

    fn add_tap_program(&mut self, number: u64, program: TapProgram) -> Result<(), Refusal> {
        self.add_program_at_calls(number, program).map_err(super::call::tap_refusal)
    }

    fn remove_tap_program(&mut self, number: u64) {
        self.remove_program(number);
    }

    fn tap_program_runs(&self, number: u64) -> u64 {
        self.program_runs(number)
    }
}

impl RuleEvents {
    fn run(&mut self, programs: &CompiledRules) -> Vec<(RuleKey, Refusal)> {
        self.drain();
        self.installer.set_rules(programs, &mut self.taps)
    }
}

impl Linux {
    /// Prepares the user workers for the processes that rules stop.
    fn update_stop_policies(&mut self) {
        let Some(rule_events) = &self.rule_events else { return };
        let programs: Vec<_> = rule_events.holding_rules();
        let mut wanted = BTreeMap::new();
        for (serial, rule, tool, processes) in programs {
            let targets = self.stop_modes(&tool, &processes);
            let _none = wanted.insert(serial, StopPolicy { rule, tool, targets });
        }
        self.workers.set_stop_policies(wanted);
        self.update_hold_sets();
    }

    /// Whether a tool may hold each process. Whether its user worker can trace them is not known
    /// yet.
    fn stop_modes(
        &mut self,
        tool: &Tool,
        processes: &BTreeSet<Identity>,
    ) -> BTreeMap<Identity, StopMode> {
        let pids: Vec<_> = processes.iter().map(|id| id.pid).collect();
        let seen = self.read_processes(&pids).unwrap_or_default();
        let may = |id: &Identity| {
            let it = seen.iter().find(|it| it.id.pid == id.pid);
            it.is_some_and(|it| tool.may(Right::Control, it).is_ok())
        };
        let mode = |id: &Identity| if may(id) { StopMode::Signal } else { StopMode::Denied };
        processes.iter().map(|id| (*id, mode(id))).collect()
    }

    /// Passes on to the rules how each process is held now.
    fn update_hold_sets(&mut self) {
        if let Some(rule_events) = &mut self.rule_events {
            rule_events.set_hold_sets(&self.workers.holdable_processes());
        }
    }

    /// The events of rules whose threads are stopped, after the kernel and the workers were read.
    pub(in crate::linux) fn held_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        if self.workers.take_policy_change() {
            self.update_hold_sets();
        }
        let Some(rule_events) = &mut self.rule_events else { return Vec::new() };
        let (caught, strays) = rule_events.take_stops();
        self.workers.add_pending_stops(caught);
        strays.into_iter().for_each(|id| self.workers.resume_process(id));
        self.workers.match_stops(now)
    }
}

impl RuleRunner for Linux {
    fn set_rules(&mut self, programs: &CompiledRules) -> Vec<(RuleKey, Refusal)> {
        if programs.is_empty() && self.rule_events.is_none() {
            return Vec::new();
        }
        let refused = match self.rule_events() {
            Ok(rule_events) => rule_events.run(programs),
            Err(why) => programs.keys().map(|key| (*key, why.clone())).collect(),
        };
        self.send_probe_locations();
        self.update_stop_policies();
        refused
    }

    fn switch_rule(&mut self, rule: RuleKey, is_on: bool) -> Ns {
        let now = clock::boot();
        if let Some(rule_events) = &mut self.rule_events {
            rule_events.installer.switch_rule(rule, is_on, &mut rule_events.taps);
        }
        now
    }

    fn is_rule_on(&mut self, rule: RuleKey) -> bool {
        let rule_events = self.rule_events.as_mut();
        rule_events.is_some_and(|it| it.installer.is_rule_on(rule, &mut it.taps))
    }

    fn rule_hold(&mut self, rule: RuleKey) -> Option<ExecutionPlace> {
        self.workers.weakest_hold(rule)
    }

    fn rule_runs(&mut self, rule: RuleKey) -> u64 {
        let rule_events = self.rule_events.as_mut();
        rule_events.map_or(0, |it| it.installer.rule_runs(rule, &mut it.taps))
    }

    fn read_counter(&mut self, meter: KernelCounter) -> KernelCounterValue {
        let rule_events = self.rule_events.as_mut();
        rule_events.map(|it| it.installer.counters.read(meter, it.taps.rules())).unwrap_or_default()
    }

    fn change_gauge(&mut self, number: u64, how: GaugeChange) -> Option<i64> {
        let rule_events = self.rule_events.as_mut()?;
        rule_events.installer.counters.change_gauge(number, how, rule_events.taps.rules())
    }

    fn take_trace(&mut self, number: u64) -> Trace {
        let rule_events = self.rule_events.as_mut();
        rule_events
            .map(|it| it.installer.counters.take_trace(number, it.taps.rules()))
            .unwrap_or_default()
    }

    fn reset_counters(&mut self, number: u64) {
        if let Some(rule_events) = &mut self.rule_events {
            rule_events.installer.reset_counters((number, clock::boot()), &mut rule_events.taps);
        }
    }

    fn free_counters(&mut self, number: u64) {
        if let Some(rule_events) = &mut self.rule_events {
            rule_events.installer.free_counters(number, &mut rule_events.taps);
        }
    }
}
