//! Registers of a probed instruction on x86: `struct pt_regs` of arch/x86/include/asm/ptrace.h.
//!
//! The offsets have never changed, so each is one load with a constant offset, as the verifier
//! requires. A loader checks those that it relies on.

use crate::abi::rule::{X86_DI, X86_SP};

/// The registers of integer arguments: di, si, dx, cx, r8, r9.
pub const ARGUMENTS: [u32; 6] = [X86_DI, 104, 96, 88, 72, 64];
/// The register of a result.
pub const RESULT: u32 = 80;
/// The program counter.
pub const IP: u32 = 128;
/// The stack pointer.
pub const SP: u32 = X86_SP;
