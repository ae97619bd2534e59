//! Probes of breakpoints: each a program that records the registers before its instruction and
//! stops the thread for its tracer. A breakpoint of the processor records where the thread is.
//!
//! In: breakpoints of user workers. Out: hits. A thread without a tracer runs on, as does one that
//! makes a single step: so a tracer has it pass the breakpoint. When the thread that a probe
//! belongs to has ended, it gets another one.

use super::{condition::compile, thread_ends::ThreadEnds};
use crate::linux::user_workers::probe_breakpoints::{
    ConditionPlace, KernelMeans, ProbeBreakpoint, ProbeHit,
};
use crate::tap::{Taps, tap_program::FileOffset};
use crate::{poller::backend_refusal, status_map::symbol_refusal};
use monitor_backend::rule::insn::{
    Compare, Insn, MAX_INSNS, MAX_REGS, MISSING, ProcessSetId, RecordOptions, Reg as Slot,
    StopSets, Width,
};
use monitor_backend::rule::rule_record::{RuleRecord as Record, StopScope};
use monitor_backend::rule::{Children, HookPoint, ProgramId, RuleProgram, Rules, Site};
use monitor_control::process_ref::is_same;
use monitor_control::{BeforeInstruction, Changes, PROBED_FLAGS, PROBED_PC, PROBED_SP};
use monitor_event::outcome::Refusal;
use monitor_event::thread::{AgentExpression, Ticket};
use monitor_model::{Identity, Pid};
use monitor_omis::Status;
use monitor_symbols::held_file::HeldFile;
use std::{collections::HashMap, path::Path};

/// `X86_EFLAGS_TF`: the thread makes a single step.
const TRAP_FLAG: i64 = 0x100;
/// All processes: a probe is in one process only.
const ALL: ProcessSetId = ProcessSetId(0);

/// The probes of breakpoints.
#[derive(Default)]
pub struct BreakpointProbes {
    set: HashMap<ProgramId, SetProbe>,
    /// Processes that may be stopped as a whole: none.
    none: Option<ProcessSetId>,
    /// While there are probes.
    thread_ends: Option<ThreadEnds>,
    hits: Vec<ProbeHit>,
}

/// A probe in the kernel.
struct SetProbe {
    ticket: Ticket,
    process: Identity,
    /// The code of a probe. The file is held open, so that it stays what it is.
    code: Option<(HeldFile, u64)>,
    /// What follows the flags in a record: registers, then the word in which it stores.
    changes: Changes,
}

impl SetProbe {
    fn location(&self) -> Option<FileOffset> {
        self.code.as_ref().map(|(file, offset)| (file.identity, *offset))
    }
}

impl SetProbe {
    /// The thread before the instruction.
    fn before(&self, record: &Record) -> BeforeInstruction {
        let Changes { registers, stored } = &self.changes;
        let numbers = [PROBED_FLAGS].into_iter().chain(registers.iter().copied());
        let place = [(PROBED_PC, record.ip), (PROBED_SP, record.sp)];
        let word = record.regs.get(1 + registers.len()).filter(|it| **it != MISSING);
        BeforeInstruction {
            registers: numbers.zip(record.regs).chain(place).collect(),
            stored: stored.zip(word.copied()),
        }
    }
}

impl BreakpointProbes {
    /// Sets the probe of a breakpoint; returns what evaluates its conditions.
    ///
    /// # Errors
    /// If the kernel refuses it: then the breakpoint is a byte.
    pub fn set(
        &mut self,
        wanted: &ProbeBreakpoint,
        rules: &mut dyn Rules,
    ) -> Result<ConditionPlace, Refusal> {
        let stoppable = match self.none {
            Some(none) => none,
            None => {
                let none = rules.make_set(Children::NotIncluded).map_err(backend_refusal)?;
                *self.none.insert(none)
            }
        };
        let (hook, code, changes) = match &wanted.means {
            KernelMeans::Probe(probe) => {
                let file = probe.file.hold(Path::new("/proc"), wanted.process.pid);
                let file = file.map_err(|error| symbol_refusal(&error))?;
                let site = Site { path: file.attach_path(), offset: probe.offset };
                let code = Some((file, probe.offset));
                (HookPoint::Entry(site), code, probe.changes.clone())
            }
            KernelMeans::Hardware(breakpoint) => {
                (HookPoint::Hardware(*breakpoint), None, Changes::default())
            }
        };
        let (insns, place) = match code {
            Some(_) => hit_insns(&changes, &wanted.conditions, stoppable)?,
            None => (vec![record(stoppable)], place_without_filter(&wanted.conditions)),
        };
        let program = RuleProgram {
            process: Some(wanted.process.pid),
            user: Some(wanted.user),
            ..RuleProgram::new(hook, None, insns)
        };
        // Before the probe is there: its thread may end at once.
        self.watch_ends(&wanted.means, wanted.process.pid, rules)?;
        let id = rules.add(&program).map_err(backend_refusal);
        let id = id.inspect_err(|_| self.forget_ends(wanted.process.pid, rules))?;
        rules.enable(id);
        let (ticket, process) = (wanted.ticket, wanted.process);
        let _none = self.set.insert(id, SetProbe { ticket, process, code, changes });
        Ok(place)
    }

    /// Removes the probes of a request, in one process or in all.
    pub fn remove(&mut self, (ticket, process): (Ticket, Option<Identity>), taps: &mut Taps) {
        let is_its =
            |it: &SetProbe| it.ticket == ticket && process.is_none_or(|id| is_same(id, it.process));
        for (id, gone) in Vec::from_iter(self.set.extract_if(|_, it| is_its(it))) {
            match gone.location() {
                Some(location) => taps.remove_probe(id, location),
                None => taps.rules().remove(id),
            }
            self.forget_ends(gone.process.pid, taps.rules());
        }
    }

    /// Watches the ends of the threads of a process that gets a probe.
    fn watch_ends(
        &mut self,
        means: &KernelMeans,
        process: Pid,
        rules: &mut dyn Rules,
    ) -> Result<(), Refusal> {
        // Each thread has its own breakpoints of the processor.
        if matches!(means, KernelMeans::Hardware(_)) {
            return Ok(());
        }
        let ends = match &mut self.thread_ends {
            Some(ends) => ends,
            None => self.thread_ends.insert(ThreadEnds::new(rules).map_err(backend_refusal)?),
        };
        ends.include(rules, process).map_err(backend_refusal)
    }

    /// Watches them no longer, if the process has no probes.
    fn forget_ends(&mut self, process: Pid, rules: &mut dyn Rules) {
        if self.set.values().any(|it| it.code.is_some() && it.process.pid == process) {
            return;
        }
        if let Some(mut ends) = self.thread_ends.take() {
            match ends.exclude(rules, process) {
                true => ends.remove(rules),
                false => self.thread_ends = Some(ends),
            }
        }
    }

    /// Whether a record is the end of a thread in a process with probes, which the kernel may have
    /// dropped.
    pub fn is_thread_end(&self, record: &Record) -> bool {
        self.thread_ends.as_ref().is_some_and(|it| it.is_end(record))
    }

    /// Takes the hits since the last call.
    pub fn take_hits(&mut self) -> Vec<ProbeHit> {
        std::mem::take(&mut self.hits)
    }

    /// Notes the hit of a breakpoint; whether the record is one.
    pub fn note_hit(&mut self, record: &Record) -> bool {
        let Some(set) = self.set.get(&record.program) else { return false };
        // Its tracer has just ended: the thread runs on.
        if record.stopped == StopScope::Thread {
            // At a breakpoint of the processor the thread stops where it is.
            let before = set.code.as_ref().map(|_| set.before(record)).unwrap_or_default();
            let (ticket, tid, pc) = (set.ticket, record.tid, record.ip);
            self.hits.push(ProbeHit { ticket, tid, pc, at: record.at, before });
        }
        true
    }

    /// Where the probes are; removed ones are with the taps.
    pub fn locations(&self) -> impl Iterator<Item = FileOffset> {
        self.set.values().filter_map(SetProbe::location)
    }
}

/// What a probe does: unless the thread makes a single step, or no condition holds, record the
/// flags and what the instruction changes, and stop it.
fn hit_insns(
    changes: &Changes,
    conditions: &[AgentExpression],
    stoppable: ProcessSetId,
) -> Result<(Vec<Insn>, ConditionPlace), Refusal> {
    let flags = Slot(0);
    let mut changed: Vec<Insn> = (1..)
        .map(Slot)
        .zip(&changes.registers)
        .map(|(slot, index)| Insn::Register(slot, *index))
        .collect();
    if let Some(store) = changes.stored {
        let slot = Slot(u8::try_from(1 + changed.len()).unwrap_or(u8::MAX));
        changed.push(Insn::Register(slot, store.base));
        changed.push(Insn::Peek(slot, slot, store.offset, width(store.bytes)));
    }
    if changed.len() >= MAX_REGS {
        let text = "the instruction changes more registers than a record has";
        return Err(Refusal::new(Status::UNSUPPORTED, text));
    }
    let mut insns =
        vec![Insn::Register(flags, PROBED_FLAGS), Insn::Filter(flags, Compare::NoBit, TRAP_FLAG)];
    let most = MAX_INSNS - insns.len() - changed.len() - 2;
    let filter = compile(conditions).filter(|it| it.len() <= most);
    let place = filter.as_ref().map_or(ConditionPlace::Worker, |_| ConditionPlace::Kernel);
    insns.extend(filter.into_iter().flatten());
    insns.push(Insn::Register(flags, PROBED_FLAGS));
    insns.extend(changed);
    insns.push(record(stoppable));
    Ok((insns, place))
}

const fn width(bytes: u8) -> Width {
    match bytes {
        1 => Width::U8,
        2 => Width::U16,
        4 => Width::U32,
        _ => Width::U64,
    }
}

/// Records the registers of the program, and stops the thread.
fn record(stoppable: ProcessSetId) -> Insn {
    let stop = Some(StopSets { traced: ALL, stoppable });
    Insn::Record(RecordOptions { texts: 0, stack: false, urgent: true, stop })
}

/// What evaluates conditions where the kernel does not.
const fn place_without_filter(conditions: &[AgentExpression]) -> ConditionPlace {
    if conditions.is_empty() { ConditionPlace::Kernel } else { ConditionPlace::Worker }
}
