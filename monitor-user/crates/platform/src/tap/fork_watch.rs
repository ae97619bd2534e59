//! Children of processes with taps: they get probes of their own.
//!
//! In: the parents. Out: a record of each fork. A child has copies of its parent's breakpoints,
//! which the kernel removes without a record: its calls between the fork and the moment at which it
//! has probes of its own are not seen.

use monitor_backend::rule::insn::{Insn, ProcessSetId, RecordOptions, Reg, Width};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_backend::rule::{Children, HookPoint, ProgramId, RuleProgram, RuleResource};
use monitor_backend::{Error, rule::Rules};
use monitor_model::Pid;
use std::collections::BTreeSet;

/// Where a record has the child, and which argument of a fork that is.
const CHILD: Reg = Reg(0);
const CHILD_ARGUMENT: u8 = 1;

/// Reports the children of processes with taps.
pub(super) struct ForkWatch {
    program: ProgramId,
    set: ProcessSetId,
    parents: BTreeSet<Pid>,
}

impl ForkWatch {
    /// Of no process so far.
    pub(super) fn new(rules: &mut dyn Rules) -> Result<Self, Error> {
        let set = rules.make_set(Children::Included)?;
        let record = Insn::Record(RecordOptions { urgent: true, ..RecordOptions::default() });
        let insns = vec![Insn::Argument(CHILD, CHILD_ARGUMENT, Width::U32), record];
        let added = rules.add(&RuleProgram::new(HookPoint::Fork, Some(set), insns));
        let program = added.inspect_err(|_| rules.free(RuleResource::Set(set)))?;
        rules.enable(program);
        Ok(Self { program, set, parents: BTreeSet::new() })
    }

    /// Watches the forks of exactly these processes, and of their children.
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

    /// The child that a record reports.
    pub(super) fn new_child(&self, record: &Record) -> Option<Pid> {
        let child = record.regs[usize::from(CHILD.0)];
        (record.program == self.program).then(|| Pid(u32::try_from(child).unwrap_or(0)))
    }

    /// Watches no fork.
    pub(super) fn remove(self, rules: &mut dyn Rules) {
        rules.remove(self.program);
        rules.free(RuleResource::Set(self.set));
    }
}
