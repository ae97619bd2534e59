//! Stops the thread of an event before its next instruction, until user space resumes it.
//!
//! A traced thread is sent a signal that only its tracer sees: it stops alone, and continues if it
//! is no longer traced. Any other thread is stopped with its process. Both signals are sent to the
//! thread itself, so they are delivered before its next instruction in user mode.

use super::frame::Frame;
use super::register;
use aya_ebpf::helpers::generated::bpf_send_signal_thread;
use monitor_ebpf::abi::rule::opcode::EncodedInsn;
use monitor_ebpf::abi::rule::record::{KIND_PROCESS_STOP, KIND_RECORD, KIND_THREAD_STOP};

/// `SIGURG`: ignored by default.
const URGENT: u32 = 23;
/// `SIGSTOP`: cannot be blocked.
const STOP: u32 = 19;

impl Frame {
    /// Stops the current thread or process; returns the kind of the record.
    #[inline(always)]
    pub fn stop(&self, insn: &EncodedInsn) -> u16 {
        if self.may_stop == 0 {
            return KIND_RECORD;
        }
        // Its user worker may just have died: then the thread is not traced.
        let is_traced = self.is_in(self.pid, insn.index) && register::is_traced(self.task);
        let (signal, kind) = if is_traced {
            let is_blocked = register::blocks(self.task, URGENT);
            (if is_blocked { STOP } else { URGENT }, KIND_THREAD_STOP)
        } else if self.is_in(self.pid, insn.imm as u32) {
            (STOP, KIND_PROCESS_STOP)
        } else {
            return KIND_RECORD;
        };
        // SAFETY: the helper takes a number, and refuses one that is no signal.
        if unsafe { bpf_send_signal_thread(signal) } != 0 {
            self.count(|counts| &mut counts.unsent);
            return KIND_RECORD;
        }
        kind
    }
}
