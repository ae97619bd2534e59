//! Processes that execute another program: held until the taps are in it.
//!
//! In: the record of an exec. Out: the process resumes. It is stopped twice, each time before its
//! next instruction: as the program is executed, when its libraries are not mapped yet, and at the
//! program's entry, when they are. Then its functions can be found, and no call was missed. Each
//! time it resumes as soon as its record is read.

use super::{ExecHold, TapError, Taps};
use monitor_backend as backend;
use monitor_backend::rule::insn::{Insn, RecordOptions, SignalTarget};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_backend::rule::{self, HookPoint, ProgramId, RuleProgram};
use monitor_model::Pid;
use monitor_symbols::{elf::ElfImage, error::SymbolError, object_file::ObjectFile};
use rustix::process::{Signal, kill_process};
use std::{collections::HashMap, sync::Arc};

/// Number of SIGSTOP, which no process can ignore.
const STOP: u32 = 19;
/// What is done to a process that begins a program.
const HOLD: [Insn; 2] = [
    Insn::Signal(STOP, SignalTarget::Process),
    Insn::Record(RecordOptions { texts: 0, stack: false, urgent: true, stop: None }),
];

impl Taps {
    /// From now on the processes that matter are held when they begin another program.
    pub fn hold_at_exec(&mut self) -> Result<(), backend::Error> {
        let exec = self.add_program(HookPoint::Exec, HOLD.to_vec())?;
        self.exec_hold = Some(ExecHold { exec, entries: HashMap::new() });
        Ok(())
    }

    /// A process that matters, in which nothing is to be found yet.
    pub fn watch_new_process(&mut self, pid: Pid) -> Result<(), backend::Error> {
        self.rules.include(self.set, pid)?;
        _ = self.included.insert(pid);
        _ = self.watched.insert(pid);
        _ = self.watch_targets();
        Ok(())
    }

    /// Whether a record is about an exec that is held; the process then resumes.
    pub(super) fn handle_exec(&mut self, record: &Record) -> bool {
        let Some(exec_hold) = &self.exec_hold else { return false };
        let at_entry = exec_hold.entries.values().any(|(_, list)| *list == record.program);
        if record.program == exec_hold.exec {
            // A child of a watched process may have begun the program.
            let pid = record.process.pid;
            _ = self.set_probes(pid);
            if let Err(error) = self.stop_at_entry(pid) {
                tracing::warn!("what process {} begins is not seen whole: {error}", pid.0);
            }
        } else if at_entry {
            // Held since its first instruction, it loads its libraries before its entry.
            self.forget_load(record.process.pid);
            self.scan_process(record.process.pid);
        } else {
            return false;
        }
        resume(record.process.pid);
        true
    }

    /// Has a process stop at the entry of the program that it has just begun.
    fn stop_at_entry(&mut self, pid: Pid) -> Result<(), TapError> {
        let path = self.proc.join(pid.0.to_string()).join("exe");
        let name = std::fs::read_link(&path).unwrap_or_else(|_| path.clone());
        let file = Arc::new(ObjectFile::open(&path, &name)?);
        let image = ElfImage::read(Arc::clone(&file))?;
        let missing = || SymbolError::Unsupported { path: name, why: "its entry is no code" };
        let offset = image.code_offset(image.entry).ok_or_else(missing)?;
        let location = (file.identity, offset);
        if self.exec_hold.as_ref().is_some_and(|it| it.entries.contains_key(&location)) {
            return Ok(());
        }
        let site = rule::Site { path: file.attach_path(), offset };
        let list = self.add_program(HookPoint::Entry(site), HOLD.to_vec())?;
        if let Some(exec_hold) = &mut self.exec_hold {
            _ = exec_hold.entries.insert(location, (file, list));
        }
        Ok(())
    }

    /// Adds an enabled program for the watched processes.
    pub fn add_program(
        &mut self,
        place: HookPoint,
        insns: Vec<Insn>,
    ) -> Result<ProgramId, backend::Error> {
        let id = self.rules.add(&RuleProgram::new(place, Some(self.set), insns))?;
        self.rules.enable(id);
        Ok(id)
    }
}

/// Resumes a process; one that has ended cannot be.
fn resume(pid: Pid) {
    let pid = i32::try_from(pid.0).ok().and_then(rustix::process::Pid::from_raw);
    _ = pid.map(|pid| kill_process(pid, Signal::CONT));
}
