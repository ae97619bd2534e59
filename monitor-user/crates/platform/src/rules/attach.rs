//! Where a program runs: its lists at a tracepoint or an event, or on the taps of a function; and
//! what their records mean.

use super::event_insns::{alternatives, call_insns, fetch_insn, param_insns};
use super::lower::{self, LoweredStep, NameResolver as _, SCRATCH, lower_steps};
use super::process_sets::processes;
use super::tracepoints::Tracepoint;
use super::{Installer, RequestNames, RuleHost};
use crate::poller;
use crate::rule_runner::{CompiledRule, RuleKey};
use crate::tap::plan::CallPlan;
use crate::tap::tap_program::TapProgram;
use monitor_backend::rule::insn::{
    Compare, Insn, RecordOptions, Reg as Slot, StopSets, UserEventId,
};
use monitor_backend::rule::{HookPoint, RuleProgram};
use monitor_event::node_event::EventKind;
use monitor_event::outcome::Refusal;
use monitor_event::right::Tool;
use monitor_event::tap::Tap;
use monitor_model::id::Pid;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A record that wakes its reader.
const RECORD: RecordOptions = RecordOptions { texts: 0, stack: false, urgent: true, stop: None };

/// What a list does, and how it holds who meets its event.
struct InstalledSteps {
    steps: Vec<LoweredStep>,
    holds: Option<StopSets>,
}

impl Installer {
    /// Has the lists of a program do what it says, where it says.
    pub(super) fn update(&mut self, key: RuleKey, kernel: &mut dyn RuleHost) -> Result<(), Refusal> {
        let Some(placed) = self.installed.get(&key) else { return Ok(()) };
        let program = placed.rule.clone();
        let mut names = RequestNames {
            session: key.0,
            placed: &self.installed,
            events: &mut self.events,
            meters: &mut self.counters,
            rules: kernel.rules(),
        };
        let steps = lower_steps(&program, &mut names)?;
        let of = |tool: Tool| self.holds.for_user(tool.uid, kernel.rules());
        let steps = InstalledSteps { steps, holds: program.held_for.map(of).transpose()? };
        match &program.event {
            EventKind::Called(tap) => self.update_tap_program(key, tap, &program, steps, kernel),
            _ => self.update_programs(key, &program, steps, kernel),
        }
    }

    fn update_programs(
        &mut self,
        key: RuleKey,
        program: &CompiledRule,
        InstalledSteps { steps, holds }: InstalledSteps,
        kernel: &mut dyn RuleHost,
    ) -> Result<(), Refusal> {
        let set = self.sets.get(&program.targets);
        let (place, head) = match (&program.event, Tracepoint::for_event(&program.event, false)) {
            (EventKind::User(number), _) => {
                let event = self.event(key, *number, kernel)?;
                (HookPoint::Raised(event), param_insns())
            }
            (_, [look]) => (look.hook_point(), look.insns(set)),
            _ => return Err(lower::unsupported("its event is not seen there")),
        };
        let fetch = |operand, to| fetch_insn(&program.event, operand, to);
        let mut wanted = Vec::new();
        for choice in alternatives(program.predicate.as_ref()) {
            let mut head = head.clone();
            if let Some((operand, value)) = choice {
                let (slot, unknown) =
                    (Slot(SCRATCH), || lower::unsupported("it checks something unknown"));
                head.push(fetch(operand, slot).ok_or_else(unknown)?);
                head.push(Insn::Filter(slot, Compare::Equal, value));
            }
            let record = Insn::Record(RecordOptions { stop: holds, ..RECORD });
            let tail = program.reports.then_some(record).into_iter().collect();
            wanted.push(lower::program_insns(head, &steps, tail, &fetch)?);
        }
        let Some(placed) = self.installed.get_mut(&key) else { return Ok(()) };
        for (at, acts) in wanted.into_iter().enumerate() {
            if let Some(list) = placed.programs.get(at) {
                kernel.rules().replace(*list, &acts).map_err(poller::backend_refusal)?;
                continue;
            }
            let list = RuleProgram::new(place.clone(), set, acts);
            let (limit, switch) = (Some(program.max_rate), Some(placed.switch));
            let list = RuleProgram { limit, switch, credentials: program.viewer, ..list };
            let id = kernel.rules().add(&list).map_err(poller::backend_refusal)?;
            placed.programs.push(id);
            let _none = self.owners.insert(id, key);
        }
        placed.steps = steps;
        Ok(())
    }

    fn update_tap_program(
        &mut self,
        key: RuleKey,
        tap: &Tap,
        program: &CompiledRule,
        InstalledSteps { steps, holds }: InstalledSteps,
        kernel: &mut dyn RuleHost,
    ) -> Result<(), Refusal> {
        let Some(set) = self.sets.get(&program.targets) else { return Ok(()) };
        let Some(placed) = self.installed.get_mut(&key) else { return Ok(()) };
        let pids = processes(&program.targets).into_iter().flatten();
        let pids: BTreeSet<Pid> = pids.map(|id| id.pid).collect();
        let is_known = placed.is_attached && placed.steps == steps && placed.pids == pids;
        if is_known {
            return Ok(());
        }
        placed.is_attached = true;
        placed.pids.clone_from(&pids);
        placed.steps.clone_from(&steps);
        let (check, reports) = (program.predicate.clone(), program.reports);
        let edge = tap.edge;
        let make = move |plan: &CallPlan| call_insns(plan, edge, (&steps, check.as_ref(), reports), holds);
        let (tap, switch) = (tap.clone(), placed.switch);
        let _none = self.tap_programs.insert(program.serial, key);
        let tap_program = TapProgram {
            tap,
            set,
            switch,
            max_rate: program.max_rate,
            viewer: program.viewer,
            pids,
            reports,
            make_insns: Arc::new(make),
        };
        kernel.add_tap_program(program.serial, tap_program)
    }

    fn event(
        &mut self,
        key: RuleKey,
        number: i64,
        kernel: &mut dyn RuleHost,
    ) -> Result<UserEventId, Refusal> {
        let (events, meters) = (&mut self.events, &mut self.counters);
        let (placed, rules) = (&self.installed, kernel.rules());
        RequestNames { session: key.0, placed, events, meters, rules }.event(number)
    }
}
