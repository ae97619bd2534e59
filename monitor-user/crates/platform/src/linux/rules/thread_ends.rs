//! Ends of threads in processes that continue without their first thread: the kernel has dropped
//! the probes that belonged to the thread.
//!
//! In: processes with probes of breakpoints. Out: whether a record is such an end. Taps have a
//! watch of their own, which also sees forks.

use monitor_backend::rule::insn::{Insn, ProcessSetId, RecordOptions};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_backend::rule::{Children, HookPoint, ProgramId, RuleProgram, RuleResource};
use monitor_backend::{Error, rule::Rules};
use monitor_model::Pid;
use std::collections::BTreeSet;

/// Reports the ends.
pub struct ThreadEnds {
    program: ProgramId,
    set: ProcessSetId,
    processes: BTreeSet<Pid>,
}

impl ThreadEnds {
    /// Of no process so far.
    pub fn new(rules: &mut dyn Rules) -> Result<Self, Error> {
        let set = rules.make_set(Children::NotIncluded)?;
        let record = Insn::Record(RecordOptions { urgent: true, ..RecordOptions::default() });
        let program = RuleProgram::new(HookPoint::LeaderlessExit, Some(set), vec![record]);
        let program = rules.add(&program).inspect_err(|_| rules.free(RuleResource::Set(set)))?;
        rules.enable(program);
        Ok(Self { program, set, processes: BTreeSet::new() })
    }

    /// Watches a process too.
    pub fn include(&mut self, rules: &mut dyn Rules, process: Pid) -> Result<(), Error> {
        if self.processes.insert(process) {
            rules.include(self.set, process)?;
        }
        Ok(())
    }

    /// Watches a process no longer; returns whether it was the last one.
    pub fn exclude(&mut self, rules: &mut dyn Rules, process: Pid) -> bool {
        if self.processes.remove(&process) {
            rules.exclude(self.set, process);
        }
        self.processes.is_empty()
    }

    /// Whether a record is the end of a thread.
    pub fn is_end(&self, record: &Record) -> bool {
        record.program == self.program
    }

    /// Removes the program.
    pub fn remove(self, rules: &mut dyn Rules) {
        rules.remove(self.program);
        rules.free(RuleResource::Set(self.set));
    }
}
