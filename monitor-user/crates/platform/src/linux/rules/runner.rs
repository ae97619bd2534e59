//! Rules of stored requests on this node: run by the kernel, also at calls, and the stops at their
//! events: between the kernel, which stops, and the user workers, which hold.

use super::super::Linux;
use super::super::user_workers::{StopMode, StopPolicy};
use crate::{CompiledRules, PlatformEvent, Processes as _, RuleKey, RuleRunner};
use crate::{rules::Installer, tap::Taps};
use monitor_backend::rule::insn::GaugeChange;
use monitor_event::action::{ExecutionPlace, KernelCounter, KernelCounterValue};
use monitor_event::right::{Right, Tool};
use monitor_event::{outcome::Refusal, trace::Trace};
use monitor_model::{Identity, Ns};
use monitor_sys::clock;
use std::collections::{BTreeMap, BTreeSet};

impl Linux {
    /// What the kernel runs, and how it is attached; `None` while no process is watched.
    fn installer(&mut self) -> Option<(&mut Installer, &mut Taps)> {
        self.rule_events.as_mut().map(|it| (&mut it.installer, &mut it.taps))
    }

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
    pub(super) fn stop_modes(
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

    /// Sets the probes of breakpoints that user workers ask for, and removes those of requests that
    /// are gone.
    pub(in crate::linux) fn update_breakpoint_probes(&mut self) {
        let unwanted = self.workers.probe_breakpoints.take_unwanted();
        if let Some(rule_events) = &mut self.rule_events {
            for gone in unwanted {
                rule_events.breakpoint_probes.remove(gone, &mut rule_events.taps);
            }
        }
        let wanted = self.workers.probe_breakpoints.take_wanted();
        for breakpoint in wanted {
            let rules = self.rule_events();
            let done = rules.and_then(|it| it.breakpoint_probes.set(&breakpoint, it.taps.rules()));
            // Before a reply of which a tool reads the code.
            self.send_probe_locations();
            self.workers.probe_set(&breakpoint, done);
        }
    }

    /// The events of rules whose threads are stopped, after the kernel and the workers were read.
    pub(in crate::linux) fn held_events(&mut self, now: Ns) -> Vec<PlatformEvent> {
        if self.workers.take_policy_change() {
            self.update_hold_sets();
        }
        let Some(rule_events) = &mut self.rule_events else { return Vec::new() };
        self.workers.add_load_stops(rule_events.take_load_stops());
        self.workers.probe_breakpoints.add_hits(rule_events.breakpoint_probes.take_hits());
        let (caught, strays) = rule_events.take_stops();
        self.workers.add_pending_stops(caught);
        strays.into_iter().for_each(|id| self.workers.resume_process(id));
        self.workers.match_stops(now)
    }
}

impl RuleRunner for Linux {
    fn runs_rules(&self) -> bool {
        self.rule_events.is_some()
    }

    fn set_rules(&mut self, programs: &CompiledRules) -> Vec<(RuleKey, Refusal)> {
        if programs.is_empty() && self.rule_events.is_none() {
            return Vec::new();
        }
        let refused = match self.rule_events() {
            Ok(rule_events) => {
                rule_events.drain();
                rule_events.installer.set_rules(programs, &mut rule_events.taps)
            }
            Err(why) => programs.keys().map(|key| (*key, why.clone())).collect(),
        };
        self.send_probe_locations();
        self.update_stop_policies();
        refused
    }

    fn switch_rule(&mut self, rule: RuleKey, is_on: bool) -> Ns {
        let now = clock::boot();
        if let Some((installer, taps)) = self.installer() {
            installer.switch_rule(rule, is_on, taps);
        }
        now
    }

    fn is_rule_on(&mut self, rule: RuleKey) -> bool {
        self.installer().is_some_and(|(installer, taps)| installer.is_rule_on(rule, taps))
    }

    fn rule_hold(&mut self, rule: RuleKey) -> Option<ExecutionPlace> {
        self.workers.weakest_hold(rule)
    }

    fn rule_runs(&mut self, rule: RuleKey) -> u64 {
        self.installer().map_or(0, |(installer, taps)| installer.rule_runs(rule, taps))
    }

    fn read_counter(&mut self, meter: KernelCounter) -> KernelCounterValue {
        let value = self.installer().map(|(it, taps)| it.counters.read(meter, taps.rules()));
        value.unwrap_or_default()
    }

    fn change_gauge(&mut self, number: u64, how: GaugeChange) -> Option<i64> {
        let (installer, taps) = self.installer()?;
        installer.counters.change_gauge(number, how, taps.rules())
    }

    fn take_trace(&mut self, number: u64) -> Trace {
        let trace = self.installer().map(|(it, taps)| it.counters.take_trace(number, taps.rules()));
        trace.unwrap_or_default()
    }

    fn reset_counters(&mut self, number: u64) {
        if let Some((installer, taps)) = self.installer() {
            installer.reset_counters((number, clock::boot()), taps);
        }
    }

    fn free_counters(&mut self, number: u64) {
        if let Some((installer, taps)) = self.installer() {
            installer.free_counters(number, taps);
        }
    }
}
