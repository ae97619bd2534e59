//! Programs of stored requests as lists of the kernel, on this node or in a script.
//!
//! ```text
//!  programs -> sets, switches, events, meters -> lists at tracepoints, riders on taps
//!  records of these lists -> the rest of a request is due
//! ```
//!
//! In: all programs, each time something about them changes. Out: lists, changed as little as can
//! be: a list that does something else is replaced at once, and misses nothing.

pub mod hold_sets;
pub mod tracepoints;
pub mod lower;
mod kernel_counters;
mod attach;
mod event_insns;
pub mod process_sets;

use super::events::PlatformEvent;
use super::rule_runner::{CompiledRule, CompiledRules, RuleKey};
use crate::poller;
use crate::tap::tap_program::TapProgram;
use hold_sets::{HoldSets, HoldableProcesses};
use lower::{NameResolver, CounterResource, LoweredStep};
use event_insns::{EventKey, event_key};
use kernel_counters::KernelCounters;
use monitor_backend::rule::insn::{GaugeChange, GaugeId, UserEventId};
use monitor_backend::rule::rule_record::{RecordReason, RuleRecord as Record, RunCounts};
use monitor_backend::rule::{ProgramId, RuleResource, Rules};
use monitor_event::action::{KernelCounter, KernelCounterValue};
use monitor_event::outcome::Refusal;
use monitor_event::right::SessionId;
use monitor_event::trace::Trace;
use monitor_model::id::{Ns, Pid};
use process_sets::ProcessSets;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What runs lists, and knows where functions are.
pub trait RuleHost {
    /// The rules.
    fn rules(&mut self) -> &mut dyn Rules;
    /// Has lists run at calls of a function, also where it is found later.
    fn add_tap_program(&mut self, number: u64, rider: TapProgram) -> Result<(), Refusal>;
    /// Takes them away.
    fn remove_tap_program(&mut self, number: u64);
    /// How often they have run.
    fn tap_program_runs(&self, number: u64) -> u64;
}

/// What the kernel runs.
#[derive(Default)]
pub struct Installer {
    installed: BTreeMap<RuleKey, Installed>,
    sets: ProcessSets,
    holds: HoldSets,
    events: BTreeMap<EventKey, UserEventId>,
    counters: KernelCounters,
    /// Whose a list at a tracepoint or an event is, and which values it is for.
    owners: HashMap<ProgramId, RuleKey>,
    /// Whose lists at calls are.
    tap_programs: HashMap<u64, RuleKey>,
}

/// A program that is there.
struct Installed {
    rule: CompiledRule,
    switch: ProgramId,
    steps: Vec<LoweredStep>,
    /// At a tracepoint or an event; none at calls.
    programs: Vec<ProgramId>,
    /// Processes that were looked into for the function.
    pids: BTreeSet<Pid>,
    n_lost: u64,
    is_attached: bool,
}

impl Installer {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.installed.is_empty()
    }

    /// Runs exactly these. Which it does not take.
    pub fn set_rules(&mut self, wanted: &CompiledRules, kernel: &mut dyn RuleHost) -> Vec<(RuleKey, Refusal)> {
        let carried = self.remove_unwanted(wanted, kernel);
        let mut refused = Vec::new();
        for (key, program) in wanted {
            if let Err(why) = self.prepare(*key, program, kernel) {
                refused.push((*key, why));
            }
        }
        let mut in_order: Vec<RuleKey> = self.installed.keys().copied().collect();
        in_order.sort_by_key(|key| self.installed[key].rule.serial);
        for key in in_order {
            if let Err(why) = self.update(key, kernel) {
                self.remove(key, kernel);
                refused.push((key, why));
            }
        }
        for key in carried {
            self.switch_rule(key, true, kernel);
        }
        self.free_unused(kernel);
        refused
    }

    /// Takes away what is not wanted, or is for something else. Which of the latter were on.
    fn remove_unwanted(&mut self, wanted: &CompiledRules, kernel: &mut dyn RuleHost) -> Vec<RuleKey> {
        let mut carried = Vec::new();
        let known: Vec<RuleKey> = self.installed.keys().copied().collect();
        for key in known {
            let old = &self.installed[&key].rule;
            let new = wanted.get(&key);
            if new.is_some_and(|new| has_same_trigger(old, new)) {
                continue;
            }
            let is_same = new.is_some_and(|new| new.serial == old.serial);
            if is_same && self.is_rule_on(key, kernel) {
                carried.push(key);
            }
            self.remove(key, kernel);
        }
        carried
    }

    /// A switch and a set for one that is new; who is in the set, for one that is known.
    fn prepare(
        &mut self,
        key: RuleKey,
        program: &CompiledRule,
        kernel: &mut dyn RuleHost,
    ) -> Result<(), Refusal> {
        if let Some(placed) = self.installed.get_mut(&key) {
            self.sets.update(&program.targets, kernel.rules());
            placed.rule = program.clone();
            return Ok(());
        }
        self.sets.make(&program.targets, kernel.rules())?;
        let switch = kernel.rules().make_switch().map_err(poller::backend_refusal)?;
        let placed = Installed {
            rule: program.clone(),
            switch,
            steps: Vec::new(),
            programs: Vec::new(),
            pids: BTreeSet::new(),
            n_lost: 0,
            is_attached: false,
        };
        let _none = self.installed.insert(key, placed);
        Ok(())
    }

    fn remove(&mut self, key: RuleKey, kernel: &mut dyn RuleHost) {
        let Some(placed) = self.installed.remove(&key) else { return };
        kernel.rules().disable(placed.switch);
        for list in placed.programs {
            kernel.rules().remove(list);
            let _owner = self.owners.remove(&list);
        }
        kernel.remove_tap_program(placed.rule.serial);
        let _owner = self.tap_programs.remove(&placed.rule.serial);
        kernel.rules().remove(placed.switch);
    }

    /// Lets a program run, or not.
    pub fn switch_rule(&self, key: RuleKey, is_on: bool, kernel: &mut dyn RuleHost) {
        let Some(placed) = self.installed.get(&key) else { return };
        match is_on {
            true => kernel.rules().enable(placed.switch),
            false => kernel.rules().disable(placed.switch),
        }
    }

    /// Whether it may run.
    pub fn is_rule_on(&self, key: RuleKey, kernel: &mut dyn RuleHost) -> bool {
        self.installed.get(&key).is_some_and(|placed| kernel.rules().is_enabled(placed.switch))
    }

    /// The requests whose programs hold who meets their event: their serials, for whom, and whom.
    pub fn holding_rules(&self) -> impl Iterator<Item = (RuleKey, &CompiledRule)> {
        let programs = self.installed.iter().map(|(key, placed)| (*key, &placed.rule));
        programs.filter(|(_, program)| program.held_for.is_some())
    }

    /// Sets how each process is held from now on.
    pub fn set_hold_sets(&mut self, held: &HoldableProcesses, rules: &mut dyn Rules) {
        self.holds.update(held, rules);
    }

    /// How often a program has run.
    pub fn rule_runs(&self, key: RuleKey, kernel: &mut dyn RuleHost) -> u64 {
        let Some(placed) = self.installed.get(&key) else { return 0 };
        let lists: u64 =
            placed.programs.iter().map(|list| kernel.rules().run_counts(*list).runs).sum();
        lists + kernel.tap_program_runs(placed.rule.serial)
    }

    /// What a record of one of these lists says; nothing, if it is of another list.
    pub fn event_of_record(&self, record: &Record) -> Option<PlatformEvent> {
        let key = self.owners.get(&record.program)?;
        let program = &self.installed.get(key)?.rule;
        if record.reason == RecordReason::Storm {
            return Some(PlatformEvent::RuleStormed(*key, program.serial));
        }
        let it = event_insns::event_of_record(&program.event, record)?;
        Some(PlatformEvent::RuleRan { rule: *key, serial: program.serial, event: it })
    }

    /// Whose a rider is.
    pub fn rule_of_tap_program(&self, number: u64) -> Option<RuleKey> {
        self.tap_programs.get(&number).copied()
    }

    /// Records, events and signals that were lost since this was asked last, but for those of
    /// calls. It is asked often, and so traces are looked at, too, before they are overwritten.
    pub fn newly_lost(&mut self, kernel: &mut dyn RuleHost) -> u64 {
        self.counters.read_traces(kernel.rules());
        let mut n_new = 0;
        for placed in self.installed.values_mut() {
            let tallies = placed.programs.iter().map(|list| kernel.rules().run_counts(*list));
            let lost = |it: RunCounts| it.lost_records + it.lost_raises + it.unsent;
            let n_lost = tallies.map(lost).sum::<u64>();
            n_new += n_lost.saturating_sub(placed.n_lost);
            placed.n_lost = n_lost;
        }
        n_new
    }

    /// What the kernel has counted in a meter.
    pub fn read_counter(&self, meter: KernelCounter, rules: &dyn Rules) -> KernelCounterValue {
        self.counters.read(meter, rules)
    }

    /// Changes the level of a number; what it was before.
    pub fn change_gauge(&self, number: u64, how: GaugeChange, rules: &mut dyn Rules) -> Option<i64> {
        self.counters.change_gauge(number, how, rules)
    }

    /// What was recorded in the trace of a number since this was asked last.
    pub fn take_trace(&mut self, number: u64, rules: &dyn Rules) -> Trace {
        self.counters.take_trace(number, rules)
    }

    /// Has the meters of a number begin anew: lists that name them are given others, at once.
    pub fn reset_counters(&mut self, (number, now): (u64, Ns), kernel: &mut dyn RuleHost) {
        let old = self.counters.reset((number, now), kernel.rules());
        let keys: Vec<RuleKey> = self.installed.keys().copied().collect();
        for key in keys {
            if let Err(why) = self.update(key, kernel) {
                tracing::warn!("a request is not run in the kernel any more: {why}");
                self.remove(key, kernel);
            }
        }
        old.into_iter().for_each(|part| kernel.rules().free(part));
    }

    /// Has no such meters any more, once no list names them.
    pub fn free_counters(&mut self, number: u64, kernel: &mut dyn RuleHost) {
        self.counters.instrument_removed(number);
        if self.installed.is_empty() {
            self.counters.free_removed(kernel.rules());
        }
    }

    fn free_unused(&mut self, kernel: &mut dyn RuleHost) {
        let programs = self.installed.iter().map(|(key, placed)| (*key, &placed.rule));
        let used: BTreeSet<EventKey> = programs.flat_map(event_insns::events).collect();
        let unused: Vec<EventKey> =
            self.events.keys().filter(|key| !used.contains(key)).copied().collect();
        for event in unused.iter().filter_map(|key| self.events.remove(key)) {
            kernel.rules().free(RuleResource::Event(event));
        }
        let whose = self.installed.values().map(|placed| &placed.rule.targets);
        self.sets.free_all_but(whose, kernel.rules());
        self.counters.free_removed(kernel.rules());
        let holders = self.installed.values().filter_map(|placed| placed.rule.held_for);
        self.holds.free_all_but(&holders.map(|tool| tool.uid).collect(), kernel.rules());
    }
}

/// Whether two programs are for the same, whatever they do.
fn has_same_trigger(one: &CompiledRule, other: &CompiledRule) -> bool {
    let key = |it: &CompiledRule| {
        let at = (it.serial, it.event.clone(), it.predicate.clone());
        (at, process_sets::set_key(&it.targets), it.max_rate, it.reports, it.held_for, it.viewer)
    };
    key(one) == key(other)
}

/// The kernel's names of what one request names.
struct RequestNames<'n> {
    session: SessionId,
    placed: &'n BTreeMap<RuleKey, Installed>,
    events: &'n mut BTreeMap<EventKey, UserEventId>,
    meters: &'n mut KernelCounters,
    rules: &'n mut dyn Rules,
}

impl NameResolver for RequestNames<'_> {
    fn counter(&mut self, meter: KernelCounter) -> Result<CounterResource, Refusal> {
        self.meters.make(meter, self.rules)
    }

    fn level(&mut self, number: u64, first: i64) -> Result<GaugeId, Refusal> {
        self.meters.make_gauge(number, first, self.rules)
    }

    fn switch(&self, id: monitor_omis::RequestId) -> Option<ProgramId> {
        self.placed.get(&(self.session, id)).map(|placed| placed.switch)
    }

    fn event(&mut self, number: i64) -> Result<UserEventId, Refusal> {
        let key = event_key(self.session, number);
        if let Some(event) = self.events.get(&key) {
            return Ok(*event);
        }
        let event = self.rules.make_event().map_err(poller::backend_refusal)?;
        let _none = self.events.insert(key, event);
        Ok(event)
    }
}
