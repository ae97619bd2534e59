//! The stream that an iterator program writes.

use aya_ebpf::helpers::generated::bpf_seq_write;
use core::ffi::c_void;

/// `struct bpf_iter_meta`.
#[repr(C)]
pub struct Meta {
    seq: *mut c_void,
    /// Number of the pass, for ever.
    pub session_id: u64,
    /// Number of the step, from zero.
    pub seq_num: u64,
}

/// Writes one record. A full buffer makes the kernel hand out what it has and run the program
/// again for this step, so the result needs no look.
#[inline(always)]
pub fn write<T>(meta: *const Meta, record: &T) {
    // SAFETY: `meta` is valid as long as the program's context.
    let seq = unsafe { (*meta).seq };
    // SAFETY: the helper reads `size_of::<T>()` initialised bytes.
    unsafe {
        bpf_seq_write(seq.cast(), core::ptr::from_ref(record).cast(), size_of::<T>() as u32);
    }
}
