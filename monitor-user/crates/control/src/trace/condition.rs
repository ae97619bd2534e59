//! The conditions of breakpoints at which a thread is stopped.
//!
//! In: a stopped thread. Out: whether it stays. A condition that cannot be evaluated counts as one
//! that holds: its tool sees the hit and can say why.

use super::process::TracedProcess;
use crate::agent_expression::{Inputs, holds, register_word};
use crate::machine::Registers;
use crate::process_ref::ProcessRef;
use crate::{AgentExpression, RequestTag, ToolId, memory};

impl TracedProcess {
    /// Whether one of the conditions holds that a tool has set for the breakpoint at which the
    /// thread is, or there are none.
    pub fn condition_holds(&self, tid: i32, requester: (ToolId, RequestTag)) -> bool {
        let Ok(registers) = Registers::read(tid) else { return true };
        let breakpoint = self.breakpoints.at(registers.pc());
        let owner = breakpoint.and_then(|it| it.owners.iter().find(|it| it.requester == requester));
        owner.is_none_or(|it| self.any_holds(tid, &it.conditions))
    }

    /// Whether one of these conditions holds in the thread, or there are none.
    pub fn any_holds(&self, tid: i32, conditions: &[AgentExpression]) -> bool {
        if conditions.is_empty() {
            return true;
        }
        let Ok(registers) = Registers::read(tid) else { return true };
        let mut inputs = StoppedThread { registers, process: &self.process };
        conditions.iter().any(|it| holds(it, &mut inputs).unwrap_or(true))
    }
}

/// What conditions read of a stopped thread.
struct StoppedThread<'p> {
    registers: Registers,
    process: &'p ProcessRef,
}

impl Inputs for StoppedThread<'_> {
    fn register(&mut self, number: u16) -> Option<u64> {
        self.registers.word(register_word(number)?)
    }

    fn memory(&mut self, address: u64, bytes: u8) -> Option<u64> {
        let mut read = memory::read(self.process, address, bytes.into()).ok()?;
        if read.len() != usize::from(bytes) {
            return None;
        }
        read.resize(8, 0);
        read.try_into().ok().map(u64::from_le_bytes)
    }
}
