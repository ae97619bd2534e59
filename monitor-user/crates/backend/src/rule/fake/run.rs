//! A run of programs, instruction by instruction, as in the kernel.

use super::{FakeRules, HookHit, ZERO_REGS};
use crate::rule::insn::{
    Builtin, CellKind, GaugeChange, Insn, MAX_REGS, MAX_TEXTS, MISSING, Operand, ProcessSetId,
    RecordOptions, Reg, TimerId, TimerScope,
};
use crate::rule::rule_record::{RecordReason, RuleRecord, StopScope};
use crate::rule::{HookPoint, ProgramId, RuleProgram, Rules as _};
use monitor_model::id::{Identity, Ns, Pid};
use std::{collections::VecDeque, sync::PoisonError};

/// Maximum events raised in a chain, as in the kernel.
const MAX_RAISED: usize = 16;

/// State of a running program.
struct Run<'a> {
    at: &'a HookHit,
    id: ProgramId,
    regs: [u64; MAX_REGS],
}

/// Whether the next instruction is executed.
enum Flow {
    Continue,
    End,
}

impl FakeRules {
    /// Runs the programs at a hook, then those of the events that they raise.
    pub fn hit(&mut self, first: HookHit) {
        if first.hook == HookPoint::Fork {
            self.inherit(&first);
        }
        let mut waiting = VecDeque::from([first]);
        let mut n_raised = 0;
        while let Some(at) = waiting.pop_front() {
            let programs: Vec<ProgramId> = self.programs.keys().copied().collect();
            for id in programs {
                let raised = self.run(id, &at);
                n_raised += raised.len();
                if n_raised > MAX_RAISED {
                    let counts = self.programs.get_mut(&id).map(|added| &mut added.counts);
                    let _ = counts.map(|counts| counts.lost_raises += 1);
                    return;
                }
                waiting.extend(raised);
            }
        }
    }

    fn inherit(&mut self, fork: &HookHit) {
        let process = |number: u64| Pid(u32::try_from(number).unwrap_or(u32::MAX));
        let (parent, child) = (process(fork.arguments[0]), process(fork.arguments[1]));
        for (set, members) in &mut self.sets {
            if self.inherited.contains(set) && members.contains(&parent) {
                let _ = members.insert(child);
            }
        }
    }

    fn is_in(&self, set: ProcessSetId, process: Pid) -> bool {
        self.sets.get(&set.0).is_some_and(|members| members.contains(&process))
    }

    /// Runs one program; returns the events it raised.
    fn run(&mut self, id: ProgramId, at: &HookHit) -> Vec<HookHit> {
        let is_on = |program: &RuleProgram| self.is_enabled(program.switch.unwrap_or(id));
        let is_here = |it: &&super::AddedProgram| it.program.hook == at.hook && is_on(&it.program);
        let Some(added) = self.programs.get(&id).filter(is_here) else { return Vec::new() };
        if added.program.set.is_some_and(|set| !self.is_in(set, at.pid)) {
            return Vec::new();
        }
        if added.program.credentials.is_some() && added.program.credentials != at.credentials {
            return Vec::new();
        }
        let insns = added.program.insns.clone();
        let _ = self.programs.get_mut(&id).map(|added| added.counts.runs += 1);
        let mut run = Run { at, id, regs: ZERO_REGS };
        let mut raised = Vec::new();
        let mut next = 0;
        while let Some(insn) = insns.get(next) {
            next += 1;
            if let Insn::Skip(n, when, of) = *insn {
                next += if when.holds(run.get(of)) { usize::from(n) } else { 0 };
            } else if let Insn::Raise(event, from) = *insn {
                let [a, b, c, d] = [0, 1, 2, 3].map(|n| run.regs[usize::from(from.0 + n) % 8]);
                let arguments = [a, b, c, d, 0, 0];
                raised.push(HookHit { hook: HookPoint::Raised(event), arguments, ..at.clone() });
            } else if matches!(self.execute(&mut run, insn), Flow::End) {
                break;
            }
        }
        raised
    }

    fn execute(&mut self, run: &mut Run<'_>, insn: &Insn) -> Flow {
        let signed = |value: Reg| run.regs[usize::from(value.0)].cast_signed();
        match *insn {
            Insn::Argument(to, n, how) => {
                run.set(
                    to,
                    how.truncate(run.at.arguments.get(usize::from(n)).copied().unwrap_or(0)),
                );
            }
            // A script has no registers.
            Insn::Register(to, _) => run.set(to, 0),
            Insn::Builtin(to, what) => run.set(to, self.builtin(run, what)),
            Insn::Constant(to, value) => run.set(to, value.cast_unsigned()),
            Insn::Memory(to, from, offset, how) => {
                let address = run.get(from).wrapping_add_signed(offset);
                let Some(value) = self.memory.get(&address) else { return self.fault(run) };
                run.set(to, how.truncate(*value));
            }
            Insn::Peek(to, from, offset, how) => {
                let address = run.get(from).wrapping_add_signed(offset);
                let value = self.memory.get(&address).map(|value| how.truncate(*value));
                run.set(to, value.unwrap_or(MISSING));
            }
            Insn::Errno(to) => run.set(to, MISSING),
            Insn::Operate(to, how, with) => {
                let second = match with {
                    Operand::Register(of) => run.get(of),
                    Operand::Constant(value) => value,
                };
                run.set(to, how.apply(run.get(to), second));
            }
            Insn::Filter(of, how, with) if !how.holds(run.get(of), with) => return Flow::End,
            Insn::Filter(..) | Insn::Raise(..) | Insn::Skip(..) => {}
            Insn::Count(cell) => self.change_cell(cell, |held| held.unwrap_or(0).wrapping_add(1)),
            Insn::Add(cell, of) => {
                let by = signed(of);
                self.change_cell(cell, |held| held.unwrap_or(0).wrapping_add(by));
            }
            Insn::ChangeGauge(id, by) => {
                let level = self.change_gauge_by_program(id, GaugeChange::By(signed(by)));
                run.set(by, level.cast_unsigned());
            }
            Insn::SetGauge(id, is) => {
                let _level = self.change_gauge_by_program(id, GaugeChange::To(signed(is)));
            }
            Insn::ValueHistogram(id, of) => self.count_value(id, signed(of)),
            Insn::Trace(id, of, n) => {
                let values = (of.0..of.0 + n).map(|n| run.get(Reg(n)).cast_signed()).collect();
                self.traces.entry(id.0).or_default().push((self.now, values));
            }
            Insn::Extreme(cell, of) => {
                let value = signed(of);
                let is_least = cell.kind == CellKind::Min;
                let pick = if is_least { i64::min } else { i64::max };
                self.change_cell(cell, |held| held.map_or(value, |held| pick(held, value)));
            }
            Insn::LatencyHistogram(id, of) => {
                let value = Ns(run.get(of));
                self.histograms.entry(id.0).or_default().record(value);
            }
            Insn::StartTimer(..) | Insn::StopTimer(..) | Insn::TimerRunning(..) => {
                return self.execute_timer(run, insn);
            }
            Insn::Record(it) => self.record(run, it),
            Insn::Enable(id) => crate::rule::Rules::enable(self, id),
            Insn::Disable(id) => crate::rule::Rules::disable(self, id),
            Insn::Signal(number, to) => self.signals.push((run.at.pid, number, to)),
            Insn::IfMember(to, of, set) => {
                let process = run.get(of);
                let pid = Pid(u32::try_from(process).unwrap_or(u32::MAX));
                run.set(to, if self.is_in(set, pid) { process } else { u64::MAX });
            }
        }
        Flow::Continue
    }

    fn fault(&mut self, run: &Run<'_>) -> Flow {
        let _ = self.programs.get_mut(&run.id).map(|added| added.counts.faults += 1);
        Flow::End
    }

    const fn builtin(&self, run: &Run<'_>, what: Builtin) -> u64 {
        match what {
            Builtin::Pid => run.at.pid.0 as u64,
            Builtin::Tid => run.at.tid.0 as u64,
            Builtin::Time => self.now.0,
            Builtin::Cpu | Builtin::Ip | Builtin::Sp | Builtin::ThreadPointer => 0,
        }
    }

    fn execute_timer(&mut self, run: &mut Run<'_>, insn: &Insn) -> Flow {
        let now = self.now;
        match *insn {
            Insn::StartTimer(timer, keep) => {
                let kept = [0, 1, 2].map(|n| run.regs[usize::from(keep.0 + n) % MAX_REGS]);
                self.calls.entry(key(timer, run.at)).or_default().push((now, kept));
            }
            Insn::StopTimer(to, timer) => {
                let begun = self.calls.get_mut(&key(timer, run.at)).and_then(Vec::pop);
                let Some((since, kept)) = begun else {
                    let _ = self.programs.get_mut(&run.id).map(|it| it.counts.lost_times += 1);
                    return Flow::End;
                };
                run.set(to, now.since(since).0);
                for (n, value) in (1..).zip(kept) {
                    run.set(Reg((to.0 + n) % 8), value);
                }
            }
            Insn::TimerRunning(to, timer) => {
                let begun = self.calls.get(&key(timer, run.at));
                run.set(to, u64::from(begun.is_some_and(|calls| !calls.is_empty())));
            }
            _ => {}
        }
        Flow::Continue
    }

    fn record(&mut self, run: &Run<'_>, it: RecordOptions) {
        let is_text = |n: &u8| it.texts >> n & 1 == 1;
        let text = |n: u8| self.texts.get(&run.regs[usize::from(n)]).cloned();
        let record = RuleRecord {
            reason: RecordReason::Requested,
            stopped: self.stop_scope(it, run.at.pid),
            program: run.id,
            at: self.now,
            process: Identity { pid: run.at.pid, start: Ns(0) },
            credentials: run.at.credentials,
            tid: run.at.tid,
            cpu: 0,
            ip: 0,
            sp: 0,
            regs: run.regs,
            texts: (0..8).filter(is_text).take(MAX_TEXTS).map(text).collect(),
            stack: Vec::new(),
        };
        self.records.lock().unwrap_or_else(PoisonError::into_inner).push_back(record);
    }

    fn stop_scope(&self, it: RecordOptions, pid: Pid) -> StopScope {
        match it.stop {
            Some(holds) if self.is_in(holds.traced, pid) => StopScope::Thread,
            Some(holds) if self.is_in(holds.stoppable, pid) => StopScope::Process,
            Some(_) | None => StopScope::None,
        }
    }
}

impl Run<'_> {
    fn get(&self, value: Reg) -> u64 {
        self.regs[usize::from(value.0) % MAX_REGS]
    }

    fn set(&mut self, to: Reg, value: u64) {
        self.regs[usize::from(to.0) % MAX_REGS] = value;
    }
}

const fn key(timer: TimerId, at: &HookHit) -> (u32, Pid) {
    let scope = match timer.scope {
        TimerScope::Thread => at.tid,
        TimerScope::Process => at.pid,
        TimerScope::Node => Pid(0),
    };
    (timer.index, scope)
}
