//! Delivered signals: whether they are our own stops.

use monitor_ebpf::abi::offset::ABSENT;
use monitor_ebpf::abi::signal::SiginfoOffsets;
use monitor_ebpf::kernel::{constant, probe};

/// Set by the loader.
#[unsafe(no_mangle)]
static SIGINFO: SiginfoOffsets = SiginfoOffsets::ABSENT;

const STOP: u64 = 19;
/// `SI_KERNEL` of include/uapi/asm-generic/siginfo.h.
const BY_KERNEL: u32 = 0x80;

/// Whether a signal was sent by one of our programs to stop the process. The kernel itself never
/// sends `SIGSTOP`.
#[inline(always)]
pub fn is_own_stop(signal: u64, info: u64) -> bool {
    let at = constant!(SIGINFO.code);
    signal == STOP && at != ABSENT && probe::<u32>(info as *const u8, at) == BY_KERNEL
}
