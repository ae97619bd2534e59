//! What a thread was sent out for: one instruction, a procedure to its end, a call.
//!
//! In: where it was when it was sent. Out: at each of its stops, whether it is there, or where to
//! wait for it next. Asks nothing of the kernel.

use super::super::act::{Mark, Tool};
use super::super::holder::Cause;
use super::super::machine::Before;
use std::collections::BTreeSet;
use std::time::Instant;

/// An errand of a thread.
#[derive(Debug)]
pub struct Errand {
    /// Who sent it.
    pub tool: Tool,
    /// What he calls it.
    pub mark: Mark,
    /// What for.
    pub way: Way,
    /// Who held the thread when it was sent, and waits for it; whoever comes to hold it meanwhile
    /// holds it.
    pub despite: BTreeSet<(Tool, Cause)>,
}

/// How it goes.
#[derive(Debug)]
pub enum Way {
    /// One instruction.
    Step,
    /// One instruction, from here with this stack pointer; a call is one.
    Next {
        /// The instruction.
        pc: u64,
        /// The stack pointer.
        sp: u64,
    },
    /// Until it is at this address with nothing of the call left on the stack.
    Back {
        /// Where.
        address: u64,
        /// The stack pointer there.
        sp: u64,
        /// Whether the value that was returned is wanted.
        told: Return,
    },
    /// A procedure that it never called, which returns to the address.
    Call {
        /// Where it traps on return.
        address: u64,
        /// What it was before.
        before: Box<Before>,
        /// When it is given up.
        until: Instant,
    },
}

/// What is told when a thread is back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    /// That a step is done.
    Step,
    /// What the procedure returned.
    Value,
}

/// The longest instruction of x86, and the shortest call.
const LONGEST: u64 = 15;
const SHORTEST: u64 = 2;

impl Errand {
    /// Whether it goes by single steps.
    pub fn by_steps(&self) -> bool {
        matches!(self.way, Way::Step | Way::Next { .. })
    }

    /// Where the thread must trap for it.
    pub fn trap(&self) -> Option<u64> {
        match &self.way {
            Way::Back { address, .. } | Way::Call { address, .. } => Some(*address),
            Way::Step | Way::Next { .. } => None,
        }
    }
}

/// Whether the one instruction was a call: it left a return address, which is just behind it, and
/// went elsewhere. `word` is what the stack pointer points at now.
pub fn was_call((pc, sp): (u64, u64), (new_pc, new_sp): (u64, u64), word: u64) -> bool {
    let behind = pc + SHORTEST..=pc + LONGEST;
    sp.checked_sub(8) == Some(new_sp) && behind.contains(&word) && new_pc != word
}

#[cfg(test)]
mod tests {
    use super::was_call;

    #[test]
    fn a_call_is_known_by_what_it_leaves_on_the_stack() {
        assert!(was_call((100, 800), (5000, 792), 105));
        // `call` of what follows, which is how old code learns where it is.
        assert!(!was_call((100, 800), (105, 792), 105));
        // `push` of some number, `mov`.
        assert!(!was_call((100, 800), (101, 792), 7));
        assert!(!was_call((100, 800), (103, 800), 103));
    }
}
