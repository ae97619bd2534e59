//! Programs of stored requests on this node: its rules, and its taps where they are at calls.

use super::super::Linux;
use super::RuleEvents;
use crate::rule_runner::{RuleRunner, CompiledRules, RuleKey};
use crate::rules::RuleHost;
use crate::tap::Taps;
use crate::tap::tap_program::TapProgram;
use monitor_backend::rule::Rules;
use monitor_backend::rule::insn::GaugeChange;
use monitor_event::action::ExecutionPlace;
use monitor_event::action::{KernelCounter, KernelCounterValue};
use monitor_event::outcome::Refusal;
use monitor_event::trace::Trace;
use monitor_model::id::Ns;
use monitor_sys::clock;

impl RuleHost for Taps {
    fn rules(&mut self) -> &mut dyn Rules {
        self.rules()
    }

    fn add_tap_program(&mut self, number: u64, rider: TapProgram) -> Result<(), Refusal> {
        self.add_program_at_calls(number, rider).map_err(super::call::tap_refusal)
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

impl RuleRunner for Linux {
    fn set_rules(&mut self, programs: &CompiledRules) -> Vec<(RuleKey, Refusal)> {
        if programs.is_empty() && self.rule_events.is_none() {
            return Vec::new();
        }
        let refused = match self.rule_events() {
            Ok(ruled) => ruled.run(programs),
            Err(why) => programs.keys().map(|key| (*key, why.clone())).collect(),
        };
        self.send_probe_locations();
        self.update_stop_policies();
        refused
    }

    fn switch_rule(&mut self, rule: RuleKey, is_on: bool) -> Ns {
        let now = clock::boot();
        if let Some(ruled) = &mut self.rule_events {
            ruled.installer.switch_rule(rule, is_on, &mut ruled.taps);
        }
        now
    }

    fn is_rule_on(&mut self, rule: RuleKey) -> bool {
        let ruled = self.rule_events.as_mut();
        ruled.is_some_and(|it| it.installer.is_rule_on(rule, &mut it.taps))
    }

    fn rule_hold(&mut self, rule: RuleKey) -> Option<ExecutionPlace> {
        self.workers.weakest_hold(rule)
    }

    fn rule_runs(&mut self, rule: RuleKey) -> u64 {
        let ruled = self.rule_events.as_mut();
        ruled.map_or(0, |it| it.installer.rule_runs(rule, &mut it.taps))
    }

    fn read_counter(&mut self, meter: KernelCounter) -> KernelCounterValue {
        let ruled = self.rule_events.as_mut();
        ruled.map(|it| it.installer.read_counter(meter, it.taps.rules())).unwrap_or_default()
    }

    fn change_gauge(&mut self, number: u64, how: GaugeChange) -> Option<i64> {
        let ruled = self.rule_events.as_mut()?;
        ruled.installer.change_gauge(number, how, ruled.taps.rules())
    }

    fn take_trace(&mut self, number: u64) -> Trace {
        let ruled = self.rule_events.as_mut();
        ruled.map(|it| it.installer.take_trace(number, it.taps.rules())).unwrap_or_default()
    }

    fn reset_counters(&mut self, number: u64) {
        if let Some(ruled) = &mut self.rule_events {
            ruled.installer.reset_counters((number, clock::boot()), &mut ruled.taps);
        }
    }

    fn free_counters(&mut self, number: u64) {
        if let Some(ruled) = &mut self.rule_events {
            ruled.installer.free_counters(number, &mut ruled.taps);
        }
    }
}
