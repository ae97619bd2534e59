//! Processes that need probes, besides those that are named: children, and those whose probes the
//! kernel has dropped.
//!
//! In: the processes with taps. Out: a record of each fork, and of each end of a thread in a
//! process that continues without its first thread. A child has copies of its parent's
//! breakpoints, which the kernel removes without a record. A probe belongs to a thread; when that
//! has ended, the kernel runs no program for it (`uprobe_perf_filter` in
//! kernel/trace/trace_uprobe.c). Calls between that and new probes are not seen.

use monitor_backend::rule::insn::{Insn, ProcessSetId, RecordOptions, Reg, Width};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_backend::rule::{Children, HookPoint, ProgramId, RuleProgram, RuleResource};
use monitor_backend::{Error, rule::Rules};
use monitor_model::Pid;
use std::collections::BTreeSet;

/// Where a record has the process, and which argument of each hook that is.
const PROCESS: Reg = Reg(0);
const HOOKS: [(HookPoint, u8); 2] = [(HookPoint::Fork, 1), (HookPoint::LeaderlessExit, 0)];

/// Reports the processes that need probes.
pub(super) struct ForkWatch {
    programs: Vec<ProgramId>,
    set: ProcessSetId,
    parents: BTreeSet<Pid>,
}

impl ForkWatch {
    /// Of no process so far.
    pub(super) fn new(rules: &mut dyn Rules) -> Result<Self, Error> {
        let set = rules.make_set(Children::Included)?;
        let mut watch = Self { programs: Vec::new(), set, parents: BTreeSet::new() };
        for (hook, argument) in HOOKS {
            let record = Insn::Record(RecordOptions { urgent: true, ..RecordOptions::default() });
            let insns = vec![Insn::Argument(PROCESS, argument, Width::U32), record];
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

    /// The process that needs probes by a record.
    pub(super) fn process(&self, record: &Record) -> Option<Pid> {
        let process = record.regs[usize::from(PROCESS.0)];
        let is_own = self.programs.contains(&record.program);
        is_own.then(|| Pid(u32::try_from(process).unwrap_or(0)))
    }

    /// Watches no process.
    pub(super) fn remove(self, rules: &mut dyn Rules) {
        self.programs.iter().for_each(|program| rules.remove(*program));
        rules.free(RuleResource::Set(self.set));
    }
}
