//! Task storage (5.11 and later) and socket storage: values freed by the kernel with their owner.
//!
//! aya-ebpf 0.2 has no task storage, and no socket storage that a connection inherits from its
//! listener. The declarations equal what its `btf_map_def!` would generate: the loader reads
//! numbers from the lengths of array types.

use super::task::Task;
use aya_ebpf::bindings::bpf_map_type::{BPF_MAP_TYPE_SK_STORAGE, BPF_MAP_TYPE_TASK_STORAGE};
use aya_ebpf::bindings::{
    BPF_F_CLONE, BPF_F_NO_PREALLOC, BPF_LOCAL_STORAGE_GET_F_CREATE, BPF_SK_STORAGE_GET_F_CREATE,
};
use aya_ebpf::helpers::generated::{bpf_sk_storage_get, bpf_task_storage_get};
use core::ptr::{null, null_mut};

/// A `T` for each task that has one, initially zero.
#[repr(C)]
pub struct TaskStorage<T> {
    r#type: *const [i32; BPF_MAP_TYPE_TASK_STORAGE as usize],
    key: *const i32,
    value: *const T,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; BPF_F_NO_PREALLOC as usize],
}

// SAFETY: the pointers are types for the loader, never dereferenced.
unsafe impl<T> Sync for TaskStorage<T> {}

impl<T> TaskStorage<T> {
    /// The declaration of the map, for a static with `#[btf_map]`.
    #[expect(clippy::new_without_default, reason = "a static cannot be made by `default`")]
    pub const fn new() -> Self {
        Self { r#type: null(), key: null(), value: null(), max_entries: null(), map_flags: null() }
    }

    /// The task's `T`, if it has one.
    #[inline(always)]
    pub fn existing(&'static self, task: Task) -> Option<*mut T> {
        self.get(task, 0)
    }

    /// The task's `T`, created if it has none; `None` if there is no memory. Not while a run queue
    /// is locked: until 6.4 the kernel's allocator may wake a thread.
    #[inline(always)]
    pub fn get_or_create(&'static self, task: Task) -> Option<*mut T> {
        self.get(task, u64::from(BPF_LOCAL_STORAGE_GET_F_CREATE))
    }

    #[inline(always)]
    fn get(&'static self, task: Task, flags: u64) -> Option<*mut T> {
        let map = core::ptr::from_ref(self).cast_mut().cast();
        let task = task.as_ptr().cast_mut().cast();
        // SAFETY: the map is this one, the task is one that the verifier knows.
        let value = unsafe { bpf_task_storage_get(map, task, null_mut(), flags) }.cast::<T>();
        if value.is_null() { None } else { Some(value) }
    }
}

/// Flags: a connection copies the storage of its listener.
const INHERITED: usize = (BPF_F_NO_PREALLOC | BPF_F_CLONE) as usize;

/// A `T` for each socket that has one, initially zero, and a copy of it for each connection that
/// such a socket accepts.
#[repr(C)]
pub struct SocketStorage<T> {
    r#type: *const [i32; BPF_MAP_TYPE_SK_STORAGE as usize],
    key: *const i32,
    value: *const T,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; INHERITED],
}

// SAFETY: the pointers are types for the loader, never dereferenced.
unsafe impl<T> Sync for SocketStorage<T> {}

impl<T> SocketStorage<T> {
    /// The declaration of the map, for a static with `#[btf_map]`.
    #[expect(clippy::new_without_default, reason = "a static cannot be made by `default`")]
    pub const fn new() -> Self {
        Self { r#type: null(), key: null(), value: null(), max_entries: null(), map_flags: null() }
    }

    /// The socket's `T`, if it has one.
    #[inline(always)]
    pub fn existing(&'static self, socket: *mut u8) -> Option<*mut T> {
        self.get(socket, 0)
    }

    /// The socket's `T`, created if it has none; `None` if there is no memory.
    #[inline(always)]
    pub fn get_or_create(&'static self, socket: *mut u8) -> Option<*mut T> {
        self.get(socket, u64::from(BPF_SK_STORAGE_GET_F_CREATE))
    }

    #[inline(always)]
    fn get(&'static self, socket: *mut u8, flags: u64) -> Option<*mut T> {
        of_socket(core::ptr::from_ref(self).cast(), socket, flags)
    }
}

/// What a storage of sockets, `SocketStorage` or aya's `SkStorage`, has of a socket that the
/// verifier knows; `None` if there is nothing, or no memory to create it.
#[inline(always)]
pub fn of_socket<T>(storage: *const u8, socket: *mut u8, flags: u64) -> Option<*mut T> {
    let map = storage.cast_mut().cast();
    // SAFETY: the map is one of sockets, and the socket is not null.
    let value = unsafe { bpf_sk_storage_get(map, socket.cast(), null_mut(), flags) }.cast::<T>();
    if value.is_null() { None } else { Some(value) }
}
