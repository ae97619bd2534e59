//! Requests on one stopped thread: registers, program counter, stack.
//!
//! In: the thread, which is stopped for the duration if it runs. Out: what was read. For a thread
//! that an event holds, the values are those at the event.

use super::{Answer, Executor, done, open, request_deadline};
use crate::{
    ControlError, FrameNames, ProbeUse, RegisterSet, WorkerReply,
    event_pos::EventPositions,
    machine::{Floats, Registers},
    process_ref::ProcessRef,
    trace::BreakpointSite,
    unwind,
};
use monitor_event::Target;
use monitor_sys::ptrace;

/// Most registers of one request.
const REGISTERS: u16 = 64;

impl Executor {
    /// Runs an operation while the thread is stopped.
    fn with_stopped_thread<T>(
        &mut self,
        target: &Target,
        operate: impl FnOnce(&mut EventPositions, &ProcessRef, i32) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let process = open(target)?;
        let tid = process.thread(target)?;
        let mut deadline = request_deadline(self.peer.as_ref());
        let positions = &mut self.event_positions;
        self.tracer
            .inspect(process, tid, &mut deadline, |traced| operate(positions, &traced.process, tid))
    }

    pub(super) fn integers(&mut self, target: &Target, first: u16, count: u16) -> Answer {
        let numbers = numbers(first, count)?;
        let registers =
            self.with_stopped_thread(target, |positions, _, tid| positions.registers(tid))?;
        numbers.map(|it| registers.get(it)).collect::<Result<_, _>>().map(WorkerReply::Integers)
    }

    pub(super) fn set_integers(&mut self, target: &Target, first: u16, values: &[u64]) -> Answer {
        let numbers = numbers(first, u16::try_from(values.len()).unwrap_or(u16::MAX))?;
        let mut written = numbers.clone().zip(values);
        if let Some((_, address)) = written.find(|(number, _)| *number == Registers::PC) {
            self.check_code(target, *address)?;
        }
        done(self.with_stopped_thread(target, |positions, _, tid| {
            positions.change_registers(tid, |registers| {
                numbers.zip(values).try_for_each(|(number, value)| registers.put(number, *value))
            })
        }))
    }

    pub(super) fn floats(&mut self, target: &Target, first: u16, count: u16) -> Answer {
        let numbers = numbers(first, count)?;
        let floats = self.with_stopped_thread(target, |_, _, tid| Floats::read(tid))?;
        numbers.map(|it| floats.get(it)).collect::<Result<_, _>>().map(WorkerReply::Floats)
    }

    pub(super) fn set_floats(&mut self, target: &Target, first: u16, values: &[f64]) -> Answer {
        let numbers = numbers(first, u16::try_from(values.len()).unwrap_or(u16::MAX))?;
        done(self.with_stopped_thread(target, |_, _, tid| {
            let mut floats = Floats::read(tid)?;
            numbers.zip(values).try_for_each(|(number, value)| floats.put(number, *value))?;
            floats.write(tid)
        }))
    }

    pub(super) fn image(&mut self, target: &Target, set: RegisterSet, most: u32) -> Answer {
        let mut bytes = self.with_stopped_thread(target, |positions, _, tid| match set {
            RegisterSet::General => Ok(positions.registers(tid)?.to_bytes()),
            RegisterSet::Float => Ok(Floats::read(tid)?.into_bytes()),
        })?;
        bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(WorkerReply::Bytes(bytes))
    }

    pub(super) fn set_image(&mut self, target: &Target, set: RegisterSet, bytes: &[u8]) -> Answer {
        done(self.with_stopped_thread(target, |positions, _, tid| match set {
            RegisterSet::General => {
                let wanted = Registers::from_bytes(bytes)?;
                positions.change_registers(tid, |registers| {
                    *registers = wanted;
                    Ok(())
                })
            }
            RegisterSet::Float => Floats::read(tid)?.with_bytes(bytes)?.write(tid),
        }))
    }

    pub(super) fn signal_info(&mut self, target: &Target) -> Answer {
        let info = self.with_stopped_thread(target, |_, _, tid| {
            let info = ptrace::signal_info(tid);
            info.map_err(|error| ControlError::from_io("reading the signal of the thread", &error))
        });
        info.map(|bytes| WorkerReply::Bytes(bytes.to_vec()))
    }

    pub(super) fn goto(&mut self, target: &Target, address: u64) -> Answer {
        self.check_code(target, address)?;
        done(self.with_stopped_thread(target, |positions, _, tid| {
            positions.change_registers(tid, |registers| {
                registers.set_pc(address);
                Ok(())
            })
        }))
    }

    /// Refuses to let a thread continue where no instruction begins.
    fn check_code(&self, target: &Target, address: u64) -> Result<(), ControlError> {
        let site = BreakpointSite::new(address, &self.probes, ProbeUse::Refused);
        self.tracer.check_code(&open(target)?, &site)
    }

    pub(super) fn backtrace(&mut self, target: &Target, most: u16, names: FrameNames) -> Answer {
        let frames = self.with_stopped_thread(target, |positions, process, tid| {
            unwind::backtrace(process, &positions.registers(tid)?, most)
        })?;
        // The thread runs again while symbol files are read.
        Ok(WorkerReply::Frames(unwind::with_names(&open(target)?, frames, names)))
    }
}

/// A range of register numbers.
fn numbers(first: u16, count: u16) -> Result<std::ops::Range<u16>, ControlError> {
    let end = first.checked_add(count).filter(|_| (1..=REGISTERS).contains(&count));
    let end = end.ok_or_else(|| {
        ControlError::InvalidArgument(format!("a request is for 1 to {REGISTERS} registers"))
    })?;
    Ok(first..end)
}
