//! Reads memory of the current process. An unreadable address ends the run: nothing is counted
//! without the value. Also sends signals.

use super::frame::{Flow, Frame};
use super::{process_sets, register};
use aya_ebpf::helpers::generated::{bpf_probe_read_user, bpf_send_signal, bpf_send_signal_thread};
use monitor_ebpf::abi::rule::opcode::{EncodedInsn, MISSING, signal_target, truncate};

impl Frame {
    /// Reads the memory that a register points to.
    #[inline(always)]
    pub(super) fn read_memory(&mut self, insn: &EncodedInsn) -> Flow {
        let mut value = 0u64;
        let from = self.reg(insn.src).wrapping_add(insn.imm);
        let bytes = bytes(insn.mode);
        let to = (&raw mut value).cast();
        // SAFETY: the helper writes at most the eight bytes of the value, or reports a fault.
        let outcome = unsafe { bpf_probe_read_user(to, bytes, from as *const _) };
        if outcome != 0 {
            self.count(|counts| &mut counts.faults);
            return Flow::End;
        }
        self.set_reg(insn.dst, truncate(value, insn.mode));
        Flow::Continue
    }

    /// The same, but the run continues on a fault. Without branches and truncation: the verifier
    /// follows each branch with everything after it.
    #[inline(always)]
    pub(super) fn peek(&mut self, insn: &EncodedInsn) {
        let mut value = 0u64;
        let from = self.reg(insn.src).wrapping_add(insn.imm);
        let to = (&raw mut value).cast();
        // SAFETY: the helper writes at most the eight bytes of the value; zeroes, if it fails.
        let outcome = unsafe { bpf_probe_read_user(to, bytes(insn.mode), from as *const _) };
        // All bits, if it failed with a negative number.
        let failed = (outcome >> 63) as u64;
        self.set_reg(insn.dst, value | (failed & MISSING));
    }

    /// Reads `errno` where the process of the event has it, without branches: as above. Before the
    /// dynamic linker has written the word, the distance is 0: not known.
    #[inline(always)]
    pub(super) fn read_errno(&mut self, insn: &EncodedInsn) {
        let (from, offset) = process_sets::errno_place(self.pid);
        let (mut word, mut value) = (0u64, 0u64);
        let to = (&raw mut word).cast();
        // SAFETY: the helper writes at most the eight bytes of the word; zeroes, if it fails, as at
        // address 0.
        unsafe { bpf_probe_read_user(to, 8, from as *const _) };
        let distance = word.wrapping_add(offset);
        let address = register::thread_pointer(self.task).wrapping_add(distance);
        let to = (&raw mut value).cast();
        // SAFETY: the helper writes at most four bytes of the value.
        let outcome = unsafe { bpf_probe_read_user(to, 4, address as *const _) };
        // All bits, if it failed, and if the distance is 0.
        let failed = (outcome >> 63) as u64;
        let is_known = (distance | distance.wrapping_neg()) >> 63;
        let missing = failed | is_known.wrapping_sub(1);
        self.set_reg(insn.dst, (value & !missing) | (missing & MISSING));
    }

    /// Sends a signal to the current process or thread.
    #[inline(always)]
    pub fn signal(&mut self, insn: &EncodedInsn) {
        let number = insn.imm as u32;
        let outcome = if insn.mode == signal_target::THREAD {
            // SAFETY: the helper takes a number, and refuses one that is no signal.
            unsafe { bpf_send_signal_thread(number) }
        } else {
            // SAFETY: as above.
            unsafe { bpf_send_signal(number) }
        };
        if outcome != 0 {
            self.count(|counts| &mut counts.unsent);
        }
    }
}

/// Number of bytes of a width. All supported machines are little-endian.
#[inline(always)]
fn bytes(mode: u8) -> u32 {
    use monitor_ebpf::abi::rule::opcode::width::{I8, I16, I32, U8, U16, U32};
    match mode {
        U8 | I8 => 1,
        U16 | I16 => 2,
        U32 | I32 => 4,
        _ => 8,
    }
}
