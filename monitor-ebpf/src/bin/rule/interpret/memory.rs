//! Memory of the process that runs here. A place that cannot be read ends the run: nothing is
//! counted for a value that nobody has seen.

use super::{Frame, Then};
use aya_ebpf::helpers::generated::{bpf_probe_read_user, bpf_send_signal, bpf_send_signal_thread};
use monitor_ebpf::abi::rule::op::{MISSING, Op, cut, receiver};

impl Frame {
    /// Reads what a value points to.
    #[inline(always)]
    pub(super) fn fetch_memory(&mut self, it: &Op) -> Then {
        let mut value = 0u64;
        let from = self.value(it.from).wrapping_add(it.value);
        let bytes = bytes(it.how);
        let to = (&raw mut value).cast();
        // SAFETY: the helper writes at most the eight bytes of the value, or reports a fault.
        let outcome = unsafe { bpf_probe_read_user(to, bytes, from as *const _) };
        if outcome != 0 {
            self.tally(|tally| &mut tally.faults);
            return Then::EndRun;
        }
        self.set(it.to, cut(value, it.how));
        Then::GoOn
    }

    /// The same, and the run goes on whatever comes of it. No branch and no cut: the verifier goes
    /// each way with all that can follow.
    #[inline(always)]
    pub(super) fn peek(&mut self, it: &Op) {
        let mut value = 0u64;
        let from = self.value(it.from).wrapping_add(it.value);
        let to = (&raw mut value).cast();
        // SAFETY: the helper writes at most the eight bytes of the value; zeroes, if it fails.
        let outcome = unsafe { bpf_probe_read_user(to, bytes(it.how), from as *const _) };
        // All bits, if it failed with a negative number.
        let failed = (outcome >> 63) as u64;
        self.set(it.to, value | (failed & MISSING));
    }

    /// Sends a signal to whom it happened to.
    #[inline(always)]
    pub fn signal(&mut self, it: &Op) {
        let number = it.value as u32;
        let outcome = if it.how == receiver::THREAD {
            // SAFETY: the helper takes a number, and refuses one that is no signal.
            unsafe { bpf_send_signal_thread(number) }
        } else {
            // SAFETY: as above.
            unsafe { bpf_send_signal(number) }
        };
        if outcome != 0 {
            self.tally(|tally| &mut tally.unsent);
        }
    }
}

/// How many bytes a width has. The lower ones come first on every machine that this runs on.
#[inline(always)]
fn bytes(how: u8) -> u32 {
    use monitor_ebpf::abi::rule::op::width::{I8, I16, I32, U8, U16, U32};
    match how {
        U8 | I8 => 1,
        U16 | I16 => 2,
        U32 | I32 => 4,
        _ => 8,
    }
}
