//! A batch of checks, calls and writes that runs while all threads of a process are stopped.
//!
//! Pure data, sent to the user worker: addresses and numbers whose meaning the sender knows.
//! `trace::stopped_batch` executes it.

use super::ControlError;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Steps to execute while all threads of a process are stopped.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct StoppedBatch {
    /// Code that may be in no frame of any thread's stack.
    pub outside: Vec<Range<u64>>,
    /// Code that a thread may be in only while it blocks in a system call.
    pub in_syscall_only: Vec<Range<u64>>,
    /// Executed in order; the first failure ends the batch.
    pub steps: Vec<StoppedStep>,
}

/// One step of a batch.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum StoppedStep {
    /// Fails unless this address contains this 64-bit word.
    Expect(u64, u64),
    /// The main thread calls a procedure; its return value is appended to the results.
    Call(u64, Vec<StoppedOperand>),
    /// Fails if this result is negative as a C `int`.
    ExpectSuccess(usize),
    /// Writes a number to memory.
    Write {
        /// Base address.
        base: StoppedOperand,
        /// Offset from the base, in bytes.
        offset: u64,
        /// The number.
        value: StoppedOperand,
        /// Size of the number in bytes, 4 or 8.
        width: usize,
    },
}

/// An operand that is known now, or after a call has returned.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum StoppedOperand {
    /// A number.
    Value(u64),
    /// The return value of the call with this index, counted from 0.
    Result(usize),
    /// Bytes that are copied to the stack of the process for the call.
    Bytes(Vec<u8>),
}

impl StoppedOperand {
    /// The value of the operand, given the results so far.
    pub fn value(&self, results: &[u64]) -> Result<u64, ControlError> {
        let missing =
            || ControlError::wrong_state("a step refers to the result of a call that was not made");
        match self {
            Self::Value(number) => Ok(*number),
            Self::Result(index) => results.get(*index).copied().ok_or_else(missing),
            Self::Bytes(_) => {
                Err(ControlError::wrong_state("bytes can only be the argument of a call"))
            }
        }
    }
}
