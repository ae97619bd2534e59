//! Context of BPF iterator programs, and the stream that they write to.

use super::task::Task;
use aya_ebpf::helpers::generated::bpf_seq_write;
use core::ffi::c_void;
use zerocopy::{Immutable, IntoBytes};

/// `struct bpf_iter_meta`: part of the context of every iterator program.
#[repr(C)]
pub struct Meta {
    seq: *mut c_void,
    /// Unique number of the iteration.
    pub session_id: u64,
    /// Number of the step, from zero.
    pub seq_num: u64,
}

impl Meta {
    /// Appends a record to the stream. If the buffer is full, the kernel flushes it and runs the
    /// program again for this step, so the result is ignored.
    #[inline(always)]
    pub fn write<T: IntoBytes + Immutable>(&self, record: &T) {
        let (seq, bytes) = (self.seq.cast(), record.as_bytes());
        // SAFETY: the helper reads that many bytes from there.
        unsafe { bpf_seq_write(seq, bytes.as_ptr().cast_mut().cast(), bytes.len() as u32) };
    }
}

/// `struct bpf_iter__task`: one step over the tasks.
#[repr(C)]
pub struct Step {
    /// State of the iteration.
    pub meta: &'static Meta,
    task: *const u8,
}

impl Step {
    /// The task; none after the last one.
    #[inline(always)]
    pub fn task(&self) -> Option<Task> {
        Task::from_kernel(self.task)
    }
}
