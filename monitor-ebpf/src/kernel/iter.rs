//! What the kernel passes to an iterator program, and the stream that it writes to.

use super::task::Task;
use aya_ebpf::helpers::generated::bpf_seq_write;
use core::ffi::c_void;
use zerocopy::{Immutable, IntoBytes};

/// `struct bpf_iter__task`: one step over the tasks.
#[repr(C)]
pub struct Step {
    meta: *const Meta,
    task: *const u8,
}

/// `struct bpf_iter_meta`.
#[repr(C)]
struct Meta {
    seq: *mut c_void,
    session_id: u64,
    seq_num: u64,
}

impl Step {
    /// The task; none after the last one.
    #[inline(always)]
    pub fn task(&self) -> Option<Task> {
        Task::from_kernel(self.task)
    }

    /// How many steps came before.
    #[inline(always)]
    pub fn number(&self) -> u64 {
        // SAFETY: the kernel passes a valid pointer.
        unsafe { (*self.meta).seq_num }
    }

    /// Appends a record to the stream. A full buffer makes the kernel hand out what it has and run
    /// the program again for this task, so the result needs no look.
    #[inline(always)]
    pub fn write<T: IntoBytes + Immutable>(&self, record: &T) {
        // SAFETY: the kernel passes a valid pointer.
        let seq = unsafe { (*self.meta).seq };
        let bytes = record.as_bytes();
        // SAFETY: the helper reads that many bytes from there.
        unsafe { bpf_seq_write(seq.cast(), bytes.as_ptr().cast_mut().cast(), bytes.len() as u32) };
    }
}
