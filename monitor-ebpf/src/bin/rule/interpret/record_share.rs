//! The ring of records, the share of it that a record is counted in, and whether that has room.

use super::frame::Frame;
use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE};
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, RingBuf};
use monitor_ebpf::abi::rule::MMAPABLE;
use monitor_ebpf::abi::rule::record_share::{
    FREE_FACTOR, MAX_SHARES, OF_PROCESS, OTHERS, RecordShare,
};
use monitor_ebpf::kernel::atomic;

/// The loader sets the size.
#[map]
pub static RULE_RECORDS: RingBuf = RingBuf::with_byte_size(1 << 20, 0);
#[map]
static RECORD_SHARES: Array<RecordShare> = Array::with_max_entries(MAX_SHARES, MMAPABLE);
/// By user id.
#[map]
static USER_SHARES: HashMap<u32, u32> = HashMap::with_max_entries(MAX_SHARES, 0);

impl Frame {
    /// Index of the share of an instruction.
    #[inline(always)]
    pub fn share(&self, of_insn: u8) -> u32 {
        if of_insn != OF_PROCESS {
            return u32::from(of_insn);
        }
        let [uid, _] = self.access.credentials();
        // SAFETY: the element is copied at once; user space changes it by replacing it.
        unsafe { USER_SHARES.get(uid) }.map_or(u32::from(OTHERS), |share| *share)
    }
}

/// Whether a share has room for a record of these bytes. Programs on other CPUs that ask at the
/// same time may each write one more.
#[inline(always)]
pub fn has_room(share: u32, bytes: u64) -> bool {
    let Some(share) = RECORD_SHARES.get_ptr(share) else { return false };
    // SAFETY: elements of an array live as long as the map.
    let share = unsafe { &*share };
    let used = RULE_RECORDS.query(u64::from(BPF_RB_AVAIL_DATA));
    let free = RULE_RECORDS.query(u64::from(BPF_RB_RING_SIZE)).saturating_sub(used);
    // SAFETY: a reference is valid.
    let written = unsafe { core::ptr::read_volatile(&raw const share.written) };
    // SAFETY: as above.
    let read = unsafe { core::ptr::read_volatile(&raw const share.read) };
    written.wrapping_sub(read).wrapping_add(bytes) <= FREE_FACTOR * free
}

/// Counts the bytes of a record that was written.
#[inline(always)]
pub fn add(share: u32, bytes: u64) {
    if let Some(share) = RECORD_SHARES.get_ptr_mut(share) {
        // SAFETY: elements of an array live as long as the map; programs only add to it.
        atomic::add(unsafe { &mut (*share).written }, bytes);
    }
}

/// Counts a record that found no room.
#[inline(always)]
pub fn lose(share: u32) {
    if let Some(share) = RECORD_SHARES.get_ptr_mut(share) {
        // SAFETY: as above.
        atomic::add(unsafe { &mut (*share).lost }, 1);
    }
}
