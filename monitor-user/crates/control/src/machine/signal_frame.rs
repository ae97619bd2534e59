//! The state of a thread as the kernel saves it for a signal handler: what rt_sigreturn(2) takes.
//!
//! In: registers and the signal mask of a stopped thread. Out: bytes for its stack, from which it
//! restores itself. Layout: `struct ucontext` of arch/x86/include/uapi/asm/{ucontext,sigcontext}.h.

use super::{Floats, Registers};
use crate::ControlError;

/// Number of rt_sigreturn(2).
pub const SIGRETURN: u64 = 15;
/// Alignment of the frame, which that of the floating point registers demands.
pub const ALIGNMENT: u64 = 64;
/// DWARF numbers in the order of `struct sigcontext`: r8 to r15, then rdi to the flags.
const ORDER: [u16; 18] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16, 49];
const CODE_SEGMENT: u16 = 51;
const STACK_SEGMENT: u16 = 52;
/// `UC_FP_XSTATE`, `UC_SIGCONTEXT_SS` and `UC_STRICT_RESTORE_SS`.
const FLAGS: u64 = 0b111;
/// No mode of an alternate signal stack: the kernel leaves that of the thread as it is.
const NO_STACK_MODE: u64 = 3;
/// Index of the pointer to the floating point registers.
const FLOATS_AT: usize = 28;
/// Index of the signal mask, the last word.
const MASK: usize = 37;
/// Where the floating point registers are: the words, rounded up to the alignment.
const FLOATS: usize = 320;

/// The frame; it contains one address of its own.
pub struct SignalFrame(Vec<u8>);

impl SignalFrame {
    /// The frame that restores this state.
    pub fn new(registers: &Registers, floats: &Floats, mask: u64) -> Result<Self, ControlError> {
        let registers = registers.with_restart();
        let mut words = [0; MASK + 1];
        (words[0], words[3], words[MASK]) = (FLAGS, NO_STACK_MODE, mask);
        for (word, number) in words[5..].iter_mut().zip(ORDER) {
            *word = registers.get(number)?;
        }
        words[5 + ORDER.len()] = registers.get(CODE_SEGMENT)? | registers.get(STACK_SEGMENT)? << 48;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(FLOATS, 0);
        bytes.extend(floats.signal_frame());
        Ok(Self(bytes))
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The frame at an aligned address.
    pub fn at(mut self, address: u64) -> Vec<u8> {
        let floats = address + FLOATS as u64;
        self.0[8 * FLOATS_AT..8 * FLOATS_AT + 8].copy_from_slice(&floats.to_le_bytes());
        self.0
    }
}
