//! Who met an event is held before its next instruction, until user space lets it go.
//!
//! A thread that is traced for it gets a signal that only its tracer sees: it stops alone, and if
//! nobody traced it any more it would run on. Any other is stopped with its process. Both signals
//! go to the thread itself, so it takes them before it runs an instruction of its own.

use super::{Frame, member, register};
use aya_ebpf::helpers::generated::bpf_send_signal_thread;
use monitor_ebpf::abi::rule::op::Op;
use monitor_ebpf::abi::rule::record::{KIND_PROCESS_HELD, KIND_THREAD_HELD, KIND_TOLD};

/// Its default is that nothing happens.
const URGENT: u32 = 23;
/// It cannot be blocked.
const STOP: u32 = 19;

impl Frame {
    /// Holds who runs here; what is written into the record about it.
    #[inline(always)]
    pub fn hold(&self, it: &Op) -> u32 {
        if self.may_hold == 0 {
            return KIND_TOLD;
        }
        // A hand may have died a moment ago: then nobody traces its threads.
        let is_traced = member::is_in(self.pid, it.index) && register::is_traced(self.task);
        let (signal, kind) = if is_traced {
            let is_blocked = register::blocks(self.task, URGENT);
            (if is_blocked { STOP } else { URGENT }, KIND_THREAD_HELD)
        } else if member::is_in(self.pid, it.value as u32) {
            (STOP, KIND_PROCESS_HELD)
        } else {
            return KIND_TOLD;
        };
        // SAFETY: the helper takes a number, and refuses one that is no signal.
        if unsafe { bpf_send_signal_thread(signal) } != 0 {
            self.tally(|tally| &mut tally.unsent);
            return KIND_TOLD;
        }
        kind
    }
}
