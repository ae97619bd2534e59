//! Wake-up policy of ring buffers.

use aya_ebpf::bindings::{
    BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP, BPF_RB_RING_SIZE,
};
use aya_ebpf::maps::RingBuf;

/// A wake-up costs microseconds, a record 50 ns, so the reader is woken only when a quarter of the
/// ring is used; otherwise it reads at its next tick.
#[inline(always)]
pub fn wake_flags(ring: &RingBuf) -> u64 {
    let used = ring.query(u64::from(BPF_RB_AVAIL_DATA));
    let size = ring.query(u64::from(BPF_RB_RING_SIZE));
    u64::from(if used > size / 4 { BPF_RB_FORCE_WAKEUP } else { BPF_RB_NO_WAKEUP })
}
