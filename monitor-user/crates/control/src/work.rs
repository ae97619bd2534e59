//! Several things that are done in a process at one moment: checks, calls, writes.
//!
//! In: nothing but addresses and numbers; who makes a list of deeds knows what they mean. Out: the
//! same, for the other end of a socket. `trace::work` does them.

use super::trouble::Trouble;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What is done while all threads of a process stand.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Code that no thread may be inside, however deep.
    pub apart: Vec<Range<u64>>,
    /// Code in which a thread may only be in a system call.
    pub at_rest: Vec<Range<u64>>,
    /// In this order; the first that fails is the last.
    pub deeds: Vec<Deed>,
}

/// One thing.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum Deed {
    /// This word must be at this address.
    Expect(u64, u64),
    /// The first thread calls a procedure; what it returns is the next result.
    Call(u64, Vec<Term>),
    /// That result must not be below zero as an `int`.
    Succeeded(usize),
    /// Memory is written.
    Write {
        /// From where on.
        base: Term,
        /// So many bytes behind.
        offset: u64,
        /// What.
        value: Term,
        /// Bytes of a number, 4 or 8.
        width: usize,
    },
}

/// A number that is known now, or when a call has returned.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub enum Term {
    /// This one.
    Is(u64),
    /// What the call with this number returned, the first being 0.
    Result(usize),
    /// Bytes, that are put into the memory of the process for the call.
    Bytes(Vec<u8>),
}

impl Term {
    /// The number.
    pub fn number(&self, results: &[u64]) -> Result<u64, Trouble> {
        let missing = || Trouble::state("a deed names the result of a call that was not made");
        match self {
            Self::Is(number) => Ok(*number),
            Self::Result(place) => results.get(*place).copied().ok_or_else(missing),
            Self::Bytes(_) => Err(Trouble::state("bytes are given to procedures only")),
        }
    }
}
