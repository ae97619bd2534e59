//! The positions at which held threads reached their events.
//!
//! A thread that a rule program stops is slightly past its event: behind the probed instruction, or
//! in the kernel's trampoline for it. Registers are read as they were at the event, and written as
//! if the thread were still there.

use super::{CodePos, ControlError, RequestTag, ToolId, machine::Registers};
use std::collections::BTreeMap;

/// Event positions by thread, tool and tag.
#[derive(Default)]
pub struct EventPositions(BTreeMap<(i32, ToolId, RequestTag), CodePos>);

impl EventPositions {
    /// Records the position of the event that holds a thread.
    pub fn insert(&mut self, tid: i32, (tool, tag): (ToolId, RequestTag), pos: CodePos) {
        let _before = self.0.insert((tid, tool, tag), pos);
    }

    /// The event holds the thread no longer.
    pub fn remove(&mut self, tid: i32, (tool, tag): (ToolId, RequestTag)) {
        let _pos = self.0.remove(&(tid, tool, tag));
    }

    /// The thread is about to run; its recorded positions are void.
    pub fn remove_thread(&mut self, tid: i32) {
        self.0.retain(|(own, ..), _| *own != tid);
    }

    /// Removes what is recorded for a tool.
    pub fn forget_tool(&mut self, tool: ToolId) {
        self.0.retain(|(_, own, _), _| *own != tool);
    }

    /// The registers of a stopped thread as they were at its event.
    pub fn registers(&self, tid: i32) -> Result<Registers, ControlError> {
        let mut registers = Registers::read(tid)?;
        if let Some(pos) = self.get(tid) {
            registers.set_position(pos);
        }
        Ok(registers)
    }

    /// Changes the registers of a stopped thread relative to its event.
    pub fn change_registers(
        &mut self,
        tid: i32,
        change: impl FnOnce(&mut Registers) -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        let real = Registers::read(tid)?;
        let mut wanted = self.registers(tid)?;
        change(&mut wanted)?;
        if let Some(pos) = self.get(tid) {
            if wanted.pc() == pos.pc {
                // The thread continues from where it really is; its stack pointer moves by the same
                // amount.
                let moved = wanted.sp().wrapping_sub(pos.sp);
                wanted.set_position(CodePos { pc: real.pc(), sp: real.sp().wrapping_add(moved) });
            } else {
                self.remove_thread(tid);
            }
        }
        wanted.write(tid)
    }

    fn get(&self, tid: i32) -> Option<CodePos> {
        let own = (tid, ToolId(0), RequestTag(0))..=(tid, ToolId(u64::MAX), RequestTag(u64::MAX));
        self.0.range(own).next().map(|(_, pos)| *pos)
    }
}
