//! `bpf(2)` where aya does not call it: a pass of an iterator over one map or one process, and
//! storage of a task that is named by its pidfd. Knows no records.

use monitor_model::id::Pid;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// `enum bpf_cmd` and `enum bpf_attach_type` of include/uapi/linux/bpf.h.
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_NOEXIST: u64 = 1;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_ITER_CREATE: libc::c_long = 33;
const BPF_TRACE_ITER: u32 = 28;

/// `link_create` of `union bpf_attr`.
#[repr(C)]
struct LinkCreate {
    program: i32,
    target: u32,
    attach_type: u32,
    flags: u32,
    /// Address of a `union bpf_iter_link_info`.
    info: u64,
    info_bytes: u32,
    zero: u32,
}

/// `iter_create` of `union bpf_attr`.
#[repr(C)]
struct IterCreate {
    link: i32,
    flags: u32,
}

/// `task` of `union bpf_iter_link_info`, since 6.1.
#[repr(C)]
struct OneProcess {
    thread: u32,
    process: u32,
    descriptor: u32,
}

/// The part of `union bpf_attr` that changes an element.
#[repr(C)]
struct MapUpdate {
    map: i32,
    zero: u32,
    /// Addresses of a descriptor and of a value.
    key: u64,
    value: u64,
    flags: u64,
}

/// Gives a task its element of a map of task storage, unless it has one. The value must be as
/// long as the map says: the kernel reads that much.
pub fn give(map: BorrowedFd<'_>, pidfd: BorrowedFd<'_>, value: &[u8]) -> io::Result<()> {
    let pidfd = pidfd.as_raw_fd();
    let (key, value) = ((&raw const pidfd) as u64, value.as_ptr() as u64);
    let update = MapUpdate { map: map.as_raw_fd(), zero: 0, key, value, flags: BPF_NOEXIST };
    match raw(BPF_MAP_UPDATE_ELEM, &update) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens one pass of a loaded iterator program over the elements of a map.
pub fn iterate(program: BorrowedFd<'_>, map: BorrowedFd<'_>) -> io::Result<File> {
    open(program, &map.as_raw_fd(), 4)
}

/// Opens one pass of a loaded iterator program over the threads of one process, the first of them
/// first. Nobody is found if there is no such process.
pub fn iterate_process(program: BorrowedFd<'_>, process: Pid) -> io::Result<File> {
    open(program, &OneProcess { thread: 0, process: process.0, descriptor: 0 }, 12)
}

fn open<T>(program: BorrowedFd<'_>, info: &T, info_bytes: u32) -> io::Result<File> {
    let link = call(
        BPF_LINK_CREATE,
        &LinkCreate {
            program: program.as_raw_fd(),
            target: 0,
            attach_type: BPF_TRACE_ITER,
            flags: 0,
            info: core::ptr::from_ref(info) as u64,
            info_bytes,
            zero: 0,
        },
    )?;
    call(BPF_ITER_CREATE, &IterCreate { link: link.as_raw_fd(), flags: 0 }).map(File::from)
}

/// Calls `bpf(2)` with a command that returns a descriptor.
fn call<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    match i32::try_from(raw(command, attributes)) {
        // SAFETY: the kernel has just made the descriptor, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn raw<T>(command: libc::c_long, attributes: &T) -> libc::c_long {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of a `repr(C)` record without padding, and
    // through it only what the caller holds.
    unsafe {
        libc::syscall(libc::SYS_bpf, command, core::ptr::from_ref(attributes), size_of::<T>())
    }
}
