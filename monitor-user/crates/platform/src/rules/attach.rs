//! Attaches rules: programs at a tracepoint or an event, or at the taps of a function.

use super::event_insns::{alternatives, call_insns, fetch_insn, param_insns};
use super::lower::{self, LoweredStep, NameResolver as _, SCRATCH, lower_steps};
use super::{Installer, RequestNames, process_sets::processes, tracepoints::Tracepoint};
use crate::{
    CompiledRule, RuleKey, poller::backend_refusal, tap::Taps, tap::plan::CallPlan,
    tap::tap_program::TapProgram,
};
use monitor_backend::rule::insn::{
    Compare, Insn, RecordOptions, Reg as Slot, StopSets, UserEventId,
};
use monitor_backend::rule::{HookPoint, RuleProgram};
use monitor_event::{node_event::EventKind, outcome::Refusal, right::Tool, tap::Tap};
use monitor_model::Pid;
use std::{collections::BTreeSet, sync::Arc};

/// A record that wakes its reader.
const RECORD: RecordOptions = RecordOptions { texts: 0, stack: false, urgent: true, stop: None };

/// What a program does, and how it stops the threads that hit its event.
struct InstalledSteps {
    steps: Vec<LoweredStep>,
    holds: Option<StopSets>,
}

impl Installer {
    /// Attaches the programs of a rule, or replaces what they do.
    pub(super) fn update(&mut self, key: RuleKey, taps: &mut Taps) -> Result<(), Refusal> {
        let Some(installed) = self.installed.get(&key) else { return Ok(()) };
        let program = installed.rule.clone();
        let mut names = RequestNames {
            session: key.0,
            installed: &self.installed,
            events: &mut self.events,
            counters: &mut self.counters,
            rules: taps.rules(),
        };
        let steps = lower_steps(&program, &mut names)?;
        let of = |tool: Tool| self.holds.for_user(tool.uid, taps.rules());
        let steps = InstalledSteps { steps, holds: program.held_for.map(of).transpose()? };
        match &program.event {
            EventKind::Called(tap) => self.update_tap_program(key, tap, &program, steps, taps),
            _ => self.update_programs(key, &program, steps, taps),
        }
    }

    fn update_programs(
        &mut self,
        key: RuleKey,
        program: &CompiledRule,
        InstalledSteps { steps, holds }: InstalledSteps,
        taps: &mut Taps,
    ) -> Result<(), Refusal> {
        let set = self.sets.get(&program.targets);
        let (place, head) = match (&program.event, Tracepoint::for_event(&program.event, false)) {
            (EventKind::User(number), _) => {
                let event = self.event(key, *number, taps)?;
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
        let Some(installed) = self.installed.get_mut(&key) else { return Ok(()) };
        for (at, acts) in wanted.into_iter().enumerate() {
            if let Some(list) = installed.programs.get(at) {
                taps.rules().replace(*list, &acts).map_err(backend_refusal)?;
                continue;
            }
            let list = RuleProgram::new(place.clone(), set, acts);
            let (limit, switch) = (Some(program.max_rate), Some(installed.switch));
            let (credentials, user) = (program.viewer, Some(program.tool.uid));
            let list = RuleProgram { limit, switch, credentials, user, ..list };
            let id = taps.rules().add(&list).map_err(backend_refusal)?;
            installed.programs.push(id);
            let _none = self.owners.insert(id, key);
        }
        installed.steps = steps;
        Ok(())
    }

    fn update_tap_program(
        &mut self,
        key: RuleKey,
        tap: &Tap,
        program: &CompiledRule,
        InstalledSteps { steps, holds }: InstalledSteps,
        taps: &mut Taps,
    ) -> Result<(), Refusal> {
        let Some(set) = self.sets.get(&program.targets) else { return Ok(()) };
        let Some(installed) = self.installed.get_mut(&key) else { return Ok(()) };
        let pids = processes(&program.targets).into_iter().flatten();
        let pids: BTreeSet<Pid> = pids.map(|id| id.pid).collect();
        let is_known = installed.is_attached && installed.steps == steps && installed.pids == pids;
        if is_known {
            return Ok(());
        }
        installed.is_attached = true;
        installed.pids.clone_from(&pids);
        installed.steps.clone_from(&steps);
        let (check, reports) = (program.predicate.clone(), program.reports);
        let edge = tap.edge;
        let make =
            move |plan: &CallPlan| call_insns(plan, edge, (&steps, check.as_ref(), reports), holds);
        let (tap, switch) = (tap.clone(), installed.switch);
        let _none = self.tap_programs.insert(program.serial, key);
        let tap_program = TapProgram {
            tap,
            set,
            switch,
            max_rate: program.max_rate,
            viewer: program.viewer,
            user: program.tool.uid,
            pids,
            reports,
            make_insns: Arc::new(make),
        };
        Ok(taps.add_program_at_calls(program.serial, tap_program)?)
    }

    fn event(
        &mut self,
        key: RuleKey,
        number: i64,
        taps: &mut Taps,
    ) -> Result<UserEventId, Refusal> {
        let (events, counters) = (&mut self.events, &mut self.counters);
        let (installed, rules) = (&self.installed, taps.rules());
        RequestNames { session: key.0, installed, events, counters, rules }.event(number)
    }
}
