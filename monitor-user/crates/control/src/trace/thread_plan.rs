//! Thread plans: step, next, finish, call (LLDB's term).
//!
//! In: the position of the thread at the start. Out: at each of its stops, whether the plan is
//! complete or where the thread must trap next. Makes no system calls.

use crate::{RequestTag, ToolId, machine::SavedThread, stop_reason::StopReason};
use std::{collections::BTreeSet, time::Instant};

/// A plan of one thread.
#[derive(Debug)]
pub struct ThreadPlan {
    /// The tool that started it.
    pub tool: ToolId,
    /// The tag of its request.
    pub tag: RequestTag,
    /// What the thread does.
    pub kind: PlanKind,
    /// The holders at the start, which wait for the plan. Holders added meanwhile do hold the
    /// thread.
    pub waiting_holders: BTreeSet<(ToolId, StopReason)>,
}

/// The kinds of plans.
#[derive(Debug)]
pub enum PlanKind {
    /// One instruction.
    Step,
    /// One instruction, started with this pc and stack pointer; a call counts as one.
    Next {
        /// Address of the instruction.
        pc: u64,
        /// The stack pointer before it.
        sp: u64,
    },
    /// Run until this address, with the frame of the call gone from the stack.
    RunTo {
        /// The return address.
        address: u64,
        /// The stack pointer there.
        sp: u64,
        /// What to report then.
        report: ReturnReport,
    },
    /// A call that we made. The thread stops at each of its system calls; with one of them it
    /// would restore itself after the return.
    Call {
        /// The state of the thread before the call.
        before: Box<SavedThread>,
        /// What the procedure has returned: an integer and a floating point number.
        result: Option<(u64, f64)>,
        /// When the call is aborted.
        until: Instant,
    },
}

/// What is reported when a thread has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnReport {
    /// A completed step.
    Step,
    /// The return value of the procedure.
    Value,
}

/// Bytes of the longest instruction of x86, and of the shortest call.
const LONGEST: u64 = 15;
const SHORTEST: u64 = 2;

impl ThreadPlan {
    /// Whether the thread is single-stepped.
    pub fn is_single_stepping(&self) -> bool {
        matches!(self.kind, PlanKind::Step | PlanKind::Next { .. })
    }

    /// The address at which the thread must trap for the plan.
    pub fn trap(&self) -> Option<u64> {
        match &self.kind {
            PlanKind::RunTo { address, .. } => Some(*address),
            PlanKind::Step | PlanKind::Next { .. } | PlanKind::Call { .. } => None,
        }
    }
}

/// Whether the executed instruction was a call: it pushed a return address just behind itself and
/// jumped elsewhere. `word` is the top of the stack now.
pub fn was_call((pc, sp): (u64, u64), (new_pc, new_sp): (u64, u64), word: u64) -> bool {
    let behind = pc + SHORTEST..=pc + LONGEST;
    sp.checked_sub(8) == Some(new_sp) && behind.contains(&word) && new_pc != word
}

#[cfg(test)]
mod tests {
    use super::was_call;

    #[test]
    fn a_call_is_recognised_by_the_return_address_on_the_stack() {
        assert!(was_call((100, 800), (5000, 792), 105));
        // `call` to the next instruction, with which old code reads its pc.
        assert!(!was_call((100, 800), (105, 792), 105));
        // `push` of some number, `mov`.
        assert!(!was_call((100, 800), (101, 792), 7));
        assert!(!was_call((100, 800), (103, 800), 103));
    }
}
