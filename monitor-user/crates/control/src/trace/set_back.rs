//! What was set back in a thread that the probe of a breakpoint has stopped after its instruction.

use crate::machine::{FrameStore, Registers};
use crate::{ControlError, memory, process_ref::ProcessRef};

/// A thread before and after its instruction.
#[derive(Debug)]
pub struct SetBack {
    /// Its registers as they were set back.
    pub before: Registers,
    /// Its registers when the instruction was executed.
    pub after: Registers,
    /// The word of its frame that the instruction has stored.
    pub stored: Option<ChangedWord>,
}

/// A word in the frame of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedWord {
    address: u64,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// How far from the stack pointer a word belongs to its frame: the frame pointer may be used as a
/// pointer to something else, that other threads see.
const BELOW: u64 = 128;
const ABOVE: u64 = 64 << 10;

impl ChangedWord {
    /// What the instruction has stored, and what was there before; none, if that is not in the
    /// frame: then it stays.
    pub fn of_store(
        process: &ProcessRef,
        before: &Registers,
        (store, value): (FrameStore, u64),
    ) -> Option<Self> {
        let address = before.word(store.base)?.wrapping_add_signed(store.offset);
        let sp = before.sp();
        if !(sp.saturating_sub(BELOW)..sp.saturating_add(ABOVE)).contains(&address) {
            return None;
        }
        let after = memory::read(process, address, store.bytes.into()).ok()?;
        let before = value.to_le_bytes().get(..store.bytes.into())?.to_vec();
        Some(Self { address, before, after })
    }

    /// Sets it back.
    pub fn set_back(&self, process: &ProcessRef) -> Result<(), ControlError> {
        memory::write(process, self.address, &self.before)
    }

    /// Stores it again.
    pub fn set_forward(&self, process: &ProcessRef) -> Result<(), ControlError> {
        memory::write(process, self.address, &self.after)
    }
}
