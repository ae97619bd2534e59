//! The `bpf(2)` commands that aya lacks: an iterator restricted to one map or one process, task
//! storage of a task given by its pidfd, a perf event with a cookie, and programs at many
//! instructions of a process by one link.
//!
//! In: programs and maps. Out: a file to read the iterator from, or a link. Records are opaque
//! here.

use monitor_model::id::Pid;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{fs::File, io};

// `enum bpf_cmd` and `enum bpf_attach_type` of include/uapi/linux/bpf.h.
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_NOEXIST: u64 = 1;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_ITER_CREATE: libc::c_long = 33;
const BPF_TRACE_ITER: u32 = 28;
const BPF_PERF_EVENT: u32 = 41;
const BPF_TRACE_UPROBE_MULTI: u32 = 48;
/// `enum bpf_prog_type` of the same.
const BPF_PROG_TYPE_KPROBE: u32 = 2;
/// The program runs when the function has returned (`enum` of the flags of uprobes, the same file).
const BPF_F_UPROBE_MULTI_RETURN: u32 = 1;
/// Bytes of an instruction.
const INSN_BYTES: usize = 8;

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

/// `link_create` of the same for a perf event.
#[repr(C)]
struct PerfLinkCreate {
    program: i32,
    event: i32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

/// `link_create` of the same for uprobes, since 6.6.
#[repr(C)]
struct UprobeLinkCreate {
    program: i32,
    target: u32,
    attach_type: u32,
    flags: u32,
    path: u64,
    offsets: u64,
    reference_counters: u64,
    cookies: u64,
    count: u32,
    probe_flags: u32,
    process: u32,
    zero: u32,
}

/// The part of `union bpf_attr` that loads a program.
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
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
    /// Address of a descriptor.
    key: u64,
    value: u64,
    flags: u64,
}

/// Creates the element of a task in a task storage map; an existing element stays unchanged. The
/// value must be as long as the map's value size, which is what the kernel reads.
pub fn create_task_storage(
    map: BorrowedFd<'_>,
    pidfd: BorrowedFd<'_>,
    value: &[u8],
) -> io::Result<()> {
    let pidfd = pidfd.as_raw_fd();
    let (key, value) = ((&raw const pidfd) as u64, value.as_ptr() as u64);
    let update = MapUpdate { map: map.as_raw_fd(), zero: 0, key, value, flags: BPF_NOEXIST };
    match bpf(BPF_MAP_UPDATE_ELEM, &update) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens a loaded iterator program for one pass over the elements of a map.
pub fn iterate_map(program: BorrowedFd<'_>, map: BorrowedFd<'_>) -> io::Result<File> {
    open(program, &map.as_raw_fd(), 4)
}

/// Opens a loaded iterator program for one pass over the threads of one process, the main thread
/// first. The pass is empty if the process does not exist.
pub fn iterate_process(program: BorrowedFd<'_>, process: Pid) -> io::Result<File> {
    open(program, &OneProcess { thread: 0, process: process.0, descriptor: 0 }, 12)
}

/// Has a perf event run a program, which finds the cookie; until the link is closed (5.15).
pub fn link_perf_event(
    program: BorrowedFd<'_>,
    event: BorrowedFd<'_>,
    cookie: u64,
) -> io::Result<OwnedFd> {
    let (program, event) = (program.as_raw_fd(), event.as_raw_fd());
    let attach_type = BPF_PERF_EVENT;
    call(BPF_LINK_CREATE, &PerfLinkCreate { program, event, attach_type, flags: 0, cookie })
}

/// What links a program of uprobes is loaded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachType {
    /// Those of [`link_perf_event`].
    PerfEvent,
    /// Those of [`link_uprobes`], since 6.6.
    UprobeMulti,
}

/// Loads a program for uprobes. The verifier writes into the log if it has any bytes.
///
/// # Errors
/// `EINVAL` if the kernel does not have such links, or one of the program's helpers; `EACCES` if
/// the verifier refuses the program, `ENOSPC` if the log is too short.
pub fn load_uprobe_program(
    insns: &[u8],
    attach_type: AttachType,
    license: &CStr,
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let count = u32::try_from(insns.len() / INSN_BYTES).unwrap_or(u32::MAX);
    call(
        BPF_PROG_LOAD,
        &ProgramLoad {
            kind: BPF_PROG_TYPE_KPROBE,
            count,
            insns: insns.as_ptr() as u64,
            license: license.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_bytes: u32::try_from(log.len()).unwrap_or(u32::MAX),
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
            kernel_version: 0,
            flags: 0,
            name: [0; 16],
            interface: 0,
            attach_type: match attach_type {
                AttachType::PerfEvent => 0,
                AttachType::UprobeMulti => BPF_TRACE_UPROBE_MULTI,
            },
        },
    )
}

/// Has a process run a program before the instructions at offsets of a file, each with a cookie,
/// until the link is closed. No other process has the breakpoints, but a child that it forks has
/// copies, at which the program does not run.
///
/// # Errors
/// `ESRCH` if the process has ended, `EINVAL` for an instruction that cannot be probed and before
/// Linux 6.6.
pub fn link_uprobes(
    program: BorrowedFd<'_>,
    process: Pid,
    file: &CStr,
    sites: &[(u64, u64)],
) -> io::Result<OwnedFd> {
    link_all(program, process, file, (sites, 0))
}

/// The same when the functions at these offsets have returned: the kernel replaces the return
/// address of each call. The registers are those of the caller, with the result.
///
/// # Errors
/// As [`link_uprobes`].
pub fn link_uretprobes(
    program: BorrowedFd<'_>,
    process: Pid,
    file: &CStr,
    sites: &[(u64, u64)],
) -> io::Result<OwnedFd> {
    link_all(program, process, file, (sites, BPF_F_UPROBE_MULTI_RETURN))
}

fn link_all(
    program: BorrowedFd<'_>,
    process: Pid,
    file: &CStr,
    (sites, probe_flags): (&[(u64, u64)], u32),
) -> io::Result<OwnedFd> {
    let (offsets, cookies): (Vec<u64>, Vec<u64>) = sites.iter().copied().unzip();
    call(
        BPF_LINK_CREATE,
        &UprobeLinkCreate {
            program: program.as_raw_fd(),
            target: 0,
            attach_type: BPF_TRACE_UPROBE_MULTI,
            flags: 0,
            path: file.as_ptr() as u64,
            offsets: offsets.as_ptr() as u64,
            reference_counters: 0,
            cookies: cookies.as_ptr() as u64,
            count: u32::try_from(sites.len()).unwrap_or(u32::MAX),
            probe_flags,
            process: process.0,
            zero: 0,
        },
    )
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
    match i32::try_from(bpf(command, attributes)) {
        // SAFETY: the kernel has just created the descriptor, and nothing else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn bpf<T>(command: libc::c_long, attributes: &T) -> libc::c_long {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of a `repr(C)` record without padding, and
    // through its addresses only what the caller borrows.
    unsafe {
        libc::syscall(libc::SYS_bpf, command, core::ptr::from_ref(attributes), size_of::<T>())
    }
}
