//! A step of an `iter/task` program, and the stream that it writes to.

use super::task::Task;
use aya_ebpf::helpers::generated::bpf_seq_write;
use core::ffi::c_void;

/// `struct bpf_iter__task`: the context of one step.
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
    /// The task of this step; after the last one there is a step without.
    #[inline(always)]
    pub fn task(&self) -> Option<Task> {
        Task::from_kernel(self.task)
    }

    /// Whether it is the first of the pass.
    #[inline(always)]
    pub fn is_first(&self) -> bool {
        // SAFETY: the kernel's description of the pass lives as long as the step.
        let meta = unsafe { &*self.meta };
        meta.seq_num == 0
    }

    /// Writes a record, or a part of one. A full buffer makes the kernel hand out what it has and
    /// run the program again for this task, so the result needs no look.
    #[inline(always)]
    pub fn write<T>(&self, record: &T) {
        // SAFETY: the kernel's description of the pass lives as long as the step.
        let meta = unsafe { &*self.meta };
        // SAFETY: the helper reads `size_of::<T>()` initialised bytes.
        unsafe {
            bpf_seq_write(
                meta.seq.cast(),
                core::ptr::from_ref(record).cast(),
                size_of::<T>() as u32,
            );
        }
    }
}
