//! What the kernel passes to an iterator program, and the stream that it writes to.

use super::sock::Sock;
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

/// `struct bpf_iter__task_file`: one step over the open files of every process.
#[repr(C)]
pub struct FileStep {
    meta: *const Meta,
    task: *const u8,
    fd: u64,
    file: *const u8,
}

/// `struct bpf_iter__bpf_sk_storage_map`: one step over the sockets that have such storage.
#[repr(C)]
pub struct SockStep<T> {
    meta: *const Meta,
    map: *const u8,
    sock: *const u8,
    value: *const T,
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

    /// Appends a record to the stream.
    #[inline(always)]
    pub fn write<T: IntoBytes + Immutable>(&self, record: &T) {
        write(self.meta, record);
    }
}

impl FileStep {
    /// A socket among the files, and the process that has it open; none after the last file.
    #[inline(always)]
    pub fn socket(&self) -> Option<(Task, Sock)> {
        if self.file.is_null() {
            return None;
        }
        Some((Task::from_kernel(self.task)?, Sock::from_file(self.file)?))
    }

    /// Number of the pass, for ever.
    #[inline(always)]
    pub fn pass(&self) -> u64 {
        // SAFETY: the kernel passes a valid pointer.
        unsafe { (*self.meta).session_id }
    }
}

impl<T: Copy> SockStep<T> {
    /// The socket and what its storage holds; none after the last one.
    #[inline(always)]
    pub fn socket(&self) -> Option<(Sock, T)> {
        if self.value.is_null() {
            return None;
        }
        // SAFETY: not null, and of the size that the map was made with.
        Some((Sock::from_kernel(self.sock)?, unsafe { *self.value }))
    }

    /// Appends a record to the stream.
    #[inline(always)]
    pub fn write<R: IntoBytes + Immutable>(&self, record: &R) {
        write(self.meta, record);
    }
}

/// A full buffer makes the kernel hand out what it has and run the program again for this step, so
/// the result needs no look.
#[inline(always)]
fn write<T: IntoBytes + Immutable>(meta: *const Meta, record: &T) {
    // SAFETY: the kernel passes a valid pointer.
    let seq = unsafe { (*meta).seq };
    let bytes = record.as_bytes();
    // SAFETY: the helper reads that many bytes from there.
    unsafe { bpf_seq_write(seq.cast(), bytes.as_ptr().cast_mut().cast(), bytes.len() as u32) };
}
