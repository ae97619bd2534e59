//! Delivered signals: whether they are our own stops, and whether the process has a handler.

use monitor_ebpf::abi::offset::ABSENT;
use monitor_ebpf::abi::rule::ActionOffsets;
use monitor_ebpf::abi::signal::SiginfoOffsets;
use monitor_ebpf::kernel::{constant, probe};

/// Set by the loader.
#[unsafe(no_mangle)]
static SIGINFO: SiginfoOffsets = SiginfoOffsets::ABSENT;
/// Set by the loader.
#[unsafe(no_mangle)]
static SIGNAL_ACTION: ActionOffsets = ActionOffsets::ABSENT;

const STOP: u64 = 19;
/// `SI_KERNEL` of include/uapi/asm-generic/siginfo.h.
const BY_KERNEL: u32 = 0x80;
/// `SIG_IGN`; larger values are handlers.
const IGNORED: u64 = 1;

/// Whether a signal was sent by one of our programs to stop the process. The kernel itself never
/// sends `SIGSTOP`.
#[inline(always)]
pub fn is_own_stop(signal: u64, info: u64) -> bool {
    let at = constant!(SIGINFO.code);
    signal == STOP && at != ABSENT && probe::<u32>(info as *const u8, at) == BY_KERNEL
}

/// Whether an action is a handler.
#[inline(always)]
pub fn has_handler(action: u64) -> bool {
    let at = constant!(SIGNAL_ACTION.handler);
    at != ABSENT && probe::<u64>(action as *const u8, at) > IGNORED
}
