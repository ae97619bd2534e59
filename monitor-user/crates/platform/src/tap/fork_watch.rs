//! Processes that need probes, besides those that are named: children, and those whose probes the
//! kernel has dropped.
//!
//! In: the processes with taps. Out: a record of each fork, and of each end of a thread in a
//! process that continues without its first thread. A child has copies of its parent's
//! breakpoints, which the kernel removes without a record. A probe belongs to a thread; when that
//! has ended, the kernel runs no program for it (`uprobe_perf_filter` in
//! kernel/trace/trace_uprobe.c). Calls between that and new probes are not seen: see
//! `unseen_calls`.

use monitor_backend::rule::insn::{Insn, ProcessSetId, RecordOptions, Reg, Width};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_backend::rule::{Children, HookPoint, ProgramId, RuleProgram, RuleResource};
use monitor_backend::{Error, rule::Rules};
use monitor_model::{Identity, Ns, Pid};
use std::collections::BTreeSet;

/// Where a record of a fork has the parent, and its start.
const PARENT: Reg = Reg(0);
const START: Reg = Reg(1);

/// Reports the processes that need probes.
pub(super) struct ForkWatch {
    /// Of forks first.
    programs: Vec<ProgramId>,
    set: ProcessSetId,
    parents: BTreeSet<Pid>,
}

impl ForkWatch {
    /// Of no process so far.
    pub(super) fn new(rules: &mut dyn Rules) -> Result<Self, Error> {
        let set = rules.make_set(Children::Included)?;
        let mut watch = Self { programs: Vec::new(), set, parents: BTreeSet::new() };
        let record = Insn::Record(RecordOptions { urgent: true, ..RecordOptions::default() });
        let parent = Insn::Argument(PARENT, 0, Width::U32);
        let start = Insn::Argument(START, 3, Width::U64);
        for (hook, insns) in [
            (HookPoint::Fork, vec![parent, start, record]),
            (HookPoint::LeaderlessExit, vec![record]),
        ] {
            match rules.add(&RuleProgram::new(hook, Some(set), insns)) {
                Ok(program) => watch.programs.push(program),
                Err(error) => {
                    watch.remove(rules);
                    return Err(error);
                }
            }
        }
        watch.programs.iter().for_each(|program| rules.enable(*program));
        Ok(watch)
    }

    /// Watches exactly these processes, and their children.
    pub(super) fn set_parents(
        &mut self,
        rules: &mut dyn Rules,
        parents: BTreeSet<Pid>,
    ) -> Result<(), Error> {
        for gone in self.parents.difference(&parents) {
            rules.exclude(self.set, *gone);
        }
        for came in parents.difference(&self.parents) {
            rules.include(self.set, *came)?;
        }
        self.parents = parents;
        Ok(())
    }

    /// The watched process of a record: the parent of the process that needs probes, or that
    /// process itself.
    pub(super) fn watched(&self, record: &Record) -> Option<Identity> {
        let at = self.programs.iter().position(|program| *program == record.program)?;
        let reg = |reg: Reg| record.regs[usize::from(reg.0)];
        let parent = || Identity {
            pid: Pid(u32::try_from(reg(PARENT)).unwrap_or(0)),
            start: Ns(reg(START)),
        };
        Some(if at == 0 { parent() } else { record.process })
    }

    /// Watches no process.
    pub(super) fn remove(self, rules: &mut dyn Rules) {
        self.programs.iter().for_each(|program| rules.remove(*program));
        rules.free(RuleResource::Set(self.set));
    }
}
