//! Rules of stored requests as programs of the taps, on this node or in a script.
//!
//! ```text
//!  rules -> sets, switches, events, counters -> programs at tracepoints, programs at taps
//!  records of these programs -> the rest of a request is due
//! ```
//!
//! In: all rules, each time one of them changes. Out: programs, changed as little as possible: a
//! program that does something else is replaced at once, and misses no event.

mod attach;
mod event_insns;
mod kernel_counters;
pub mod lower;
pub mod process_sets;
pub mod tracepoints;

use super::{
    CompiledRule, CompiledRules, PlatformEvent, RuleKey, poller::backend_refusal, tap::Taps,
};
use event_insns::{EventKey, event_key};
use kernel_counters::KernelCounters;
use lower::{LoweredStep, NameResolver};
use monitor_backend::rule::insn::{GaugeId, UserEventId};
use monitor_backend::rule::rule_record::{RecordReason, RuleRecord as Record, RunCounts};
use monitor_backend::rule::{ProgramId, RuleResource, Rules};
use monitor_event::right::{SessionId, Tool};
use monitor_event::{action::KernelCounter, node_event::EventKind, outcome::Refusal};
use monitor_model::{Identity, Ns, Pid};
use process_sets::{HoldSets, ProcessSets};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What the kernel runs.
#[derive(Default)]
pub struct Installer {
    installed: BTreeMap<RuleKey, Installed>,
    sets: ProcessSets,
    /// How processes are held.
    pub(crate) holds: HoldSets,
    events: BTreeMap<EventKey, UserEventId>,
    /// The counters of instruments.
    pub(crate) counters: KernelCounters,
    /// The rule of each program at a tracepoint or an event.
    owners: HashMap<ProgramId, RuleKey>,
    /// The rule of each tap program.
    tap_programs: HashMap<u64, RuleKey>,
}

/// An installed rule.
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
    /// Whether no rule is installed.
    pub fn is_empty(&self) -> bool {
        self.installed.is_empty()
    }

    /// Installs exactly these; returns those that it refuses.
    pub fn set_rules(
        &mut self,
        wanted: &CompiledRules,
        taps: &mut Taps,
    ) -> Vec<(RuleKey, Refusal)> {
        let carried = self.remove_unwanted(wanted, taps);
        let mut refused = Vec::new();
        for (key, program) in wanted {
            if let Err(why) = self.prepare(*key, program, taps) {
                refused.push((*key, why));
            }
        }
        let mut in_order: Vec<RuleKey> = self.installed.keys().copied().collect();
        in_order.sort_by_key(|key| self.installed[key].rule.serial);
        for key in in_order {
            if let Err(why) = self.update(key, taps) {
                self.remove(key, taps);
                refused.push((key, why));
            }
        }
        for key in carried {
            self.switch_rule(key, true, taps);
        }
        self.free_unused(taps);
        refused
    }

    /// Removes what is not wanted, or has another trigger; returns which of the latter were on.
    fn remove_unwanted(&mut self, wanted: &CompiledRules, taps: &mut Taps) -> Vec<RuleKey> {
        let mut carried = Vec::new();
        let known: Vec<RuleKey> = self.installed.keys().copied().collect();
        for key in known {
            let old = &self.installed[&key].rule;
            let new = wanted.get(&key);
            if new.is_some_and(|new| has_same_trigger(old, new)) {
                continue;
            }
            let is_same = new.is_some_and(|new| new.serial == old.serial);
            if is_same && self.is_rule_on(key, taps) {
                carried.push(key);
            }
            self.remove(key, taps);
        }
        carried
    }

    /// Makes a switch and a set for a new rule; updates the set of a known one.
    fn prepare(
        &mut self,
        key: RuleKey,
        program: &CompiledRule,
        taps: &mut Taps,
    ) -> Result<(), Refusal> {
        if let Some(installed) = self.installed.get_mut(&key) {
            self.sets.update(&program.targets, taps.rules());
            installed.rule = program.clone();
            return Ok(());
        }
        self.sets.make(&program.targets, taps.rules())?;
        let switch = taps.rules().make_switch().map_err(backend_refusal)?;
        let installed = Installed {
            rule: program.clone(),
            switch,
            steps: Vec::new(),
            programs: Vec::new(),
            pids: BTreeSet::new(),
            n_lost: 0,
            is_attached: false,
        };
        let _none = self.installed.insert(key, installed);
        Ok(())
    }

    fn remove(&mut self, key: RuleKey, taps: &mut Taps) {
        let Some(installed) = self.installed.remove(&key) else { return };
        taps.rules().disable(installed.switch);
        for list in installed.programs {
            taps.rules().remove(list);
            let _owner = self.owners.remove(&list);
        }
        taps.remove_program(installed.rule.serial);
        let _owner = self.tap_programs.remove(&installed.rule.serial);
        taps.rules().remove(installed.switch);
    }

    /// Switches a rule on or off.
    pub fn switch_rule(&self, key: RuleKey, is_on: bool, taps: &mut Taps) {
        let Some(installed) = self.installed.get(&key) else { return };
        match is_on {
            true => taps.rules().enable(installed.switch),
            false => taps.rules().disable(installed.switch),
        }
    }

    /// Whether it is on.
    pub fn is_rule_on(&self, key: RuleKey, taps: &mut Taps) -> bool {
        self.installed.get(&key).is_some_and(|installed| taps.rules().is_enabled(installed.switch))
    }

    /// The rules that hold the threads that hit their events.
    pub fn holding_rules(&self) -> impl Iterator<Item = (RuleKey, &CompiledRule)> {
        let programs = self.installed.iter().map(|(key, installed)| (*key, &installed.rule));
        programs.filter(|(_, program)| program.held_for.is_some())
    }

    /// Of these processes, those that lack the function of a rule, each with the tool of the first.
    pub fn processes_of_calls(
        &self,
        lacking: &BTreeSet<Pid>,
        taps: &Taps,
    ) -> BTreeMap<Identity, Tool> {
        let mut found = BTreeMap::new();
        for rule in self.installed.values().map(|it| &it.rule) {
            let EventKind::Called(tap) = &rule.event else { continue };
            let its = process_sets::processes(&rule.targets).into_iter().flatten();
            for id in its.filter(|id| lacking.contains(&id.pid) && taps.is_missing(tap, id.pid)) {
                let _first = found.entry(*id).or_insert(rule.tool);
            }
        }
        found
    }

    /// How often a rule has run.
    pub fn rule_runs(&self, key: RuleKey, taps: &mut Taps) -> u64 {
        let Some(installed) = self.installed.get(&key) else { return 0 };
        let runs: u64 =
            installed.programs.iter().map(|list| taps.rules().run_counts(*list).runs).sum();
        runs + taps.program_runs(installed.rule.serial)
    }

    /// The event of a record, if it is of a rule's program.
    pub fn event_of_record(&self, record: &Record) -> Option<PlatformEvent> {
        let key = self.owners.get(&record.program)?;
        let program = &self.installed.get(key)?.rule;
        if record.reason == RecordReason::Storm {
            return Some(PlatformEvent::RuleStormed(*key, program.serial));
        }
        let it = event_insns::event_of_record(&program.event, record)?;
        Some(PlatformEvent::RuleRan { rule: *key, serial: program.serial, event: it })
    }

    /// The rule that a tap program belongs to.
    pub fn rule_of_tap_program(&self, number: u64) -> Option<RuleKey> {
        self.tap_programs.get(&number).copied()
    }

    /// Events and signals of rules that were lost since the last call, by user. It is called often,
    /// and so traces are read too, before they are overwritten.
    pub fn newly_lost(&mut self, taps: &mut Taps) -> BTreeMap<Option<u32>, u64> {
        self.counters.read_traces(taps.rules());
        let mut new = BTreeMap::new();
        for installed in self.installed.values_mut() {
            let counts = installed.programs.iter().map(|list| taps.rules().run_counts(*list));
            let lost = |it: RunCounts| it.lost_raises + it.unsent;
            let n_lost = counts.map(lost).sum::<u64>();
            let n_new = n_lost.saturating_sub(installed.n_lost);
            *new.entry(Some(installed.rule.tool.uid)).or_default() += n_new;
            installed.n_lost = n_lost;
        }
        new
    }

    /// Resets the counters of a number: programs that name them get others, at once.
    pub fn reset_counters(&mut self, (number, now): (u64, Ns), taps: &mut Taps) {
        let old = self.counters.reset((number, now), taps.rules());
        let keys: Vec<RuleKey> = self.installed.keys().copied().collect();
        for key in keys {
            if let Err(why) = self.update(key, taps) {
                tracing::warn!("a request is not run in the kernel any more: {why}");
                self.remove(key, taps);
            }
        }
        old.into_iter().for_each(|part| taps.rules().free(part));
    }

    /// Frees the counters of a number, once no program names them.
    pub fn free_counters(&mut self, number: u64, taps: &mut Taps) {
        self.counters.instrument_removed(number);
        if self.installed.is_empty() {
            self.counters.free_removed(taps.rules());
        }
    }

    fn free_unused(&mut self, taps: &mut Taps) {
        let programs = self.installed.iter().map(|(key, installed)| (*key, &installed.rule));
        let used: BTreeSet<EventKey> = programs.flat_map(event_insns::events).collect();
        for (_, event) in self.events.extract_if(.., |key, _| !used.contains(key)) {
            taps.rules().free(RuleResource::Event(event));
        }
        let targets = self.installed.values().map(|installed| &installed.rule.targets);
        self.sets.free_all_but(targets, taps.rules());
        self.counters.free_removed(taps.rules());
        let holders = self.installed.values().filter_map(|installed| installed.rule.held_for);
        self.holds.free_all_but(&holders.map(|tool| tool.uid).collect(), taps.rules());
    }
}

/// Whether two rules have the same trigger, whatever they do.
fn has_same_trigger(one: &CompiledRule, other: &CompiledRule) -> bool {
    let key = |it: &CompiledRule| {
        let at = (it.serial, it.event.clone(), it.predicate.clone());
        (at, process_sets::set_key(&it.targets), it.max_rate, it.reports, it.held_for, it.viewer)
    };
    key(one) == key(other)
}

/// Resolves what one request names to resources of the kernel.
struct RequestNames<'n> {
    session: SessionId,
    installed: &'n BTreeMap<RuleKey, Installed>,
    events: &'n mut BTreeMap<EventKey, UserEventId>,
    counters: &'n mut KernelCounters,
    rules: &'n mut dyn Rules,
}

impl NameResolver for RequestNames<'_> {
    fn counter(&mut self, counter: KernelCounter) -> Result<RuleResource, Refusal> {
        self.counters.make(counter, self.rules)
    }

    fn gauge(&mut self, number: u64, first: i64) -> Result<GaugeId, Refusal> {
        self.counters.make_gauge(number, first, self.rules)
    }

    fn switch(&self, id: monitor_omis::RequestId) -> Option<ProgramId> {
        self.installed.get(&(self.session, id)).map(|installed| installed.switch)
    }

    fn event(&mut self, number: i64) -> Result<UserEventId, Refusal> {
        let key = event_key(self.session, number);
        if let Some(event) = self.events.get(&key) {
            return Ok(*event);
        }
        let event = self.rules.make_event().map_err(backend_refusal)?;
        let _none = self.events.insert(key, event);
        Ok(event)
    }
}
