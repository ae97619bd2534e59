//! Breakpoints as perf events (perf_event_open(2)): of the processor (`PERF_TYPE_BREAKPOINT`), and
//! in the code of a file (uprobes).
//!
//! In: a thread and an address, or a place in a file. Out: a descriptor; the breakpoint is there as
//! long as that, or a link of it, is open. Of the processor there are four for each thread on x86,
//! which debuggers share with it.

use monitor_model::id::Pid;
use perf_event_open_sys::bindings::{
    HW_BREAKPOINT_LEN_8, HW_BREAKPOINT_RW, HW_BREAKPOINT_W, HW_BREAKPOINT_X, PERF_COUNT_SW_DUMMY,
    PERF_FLAG_FD_CLOEXEC, PERF_TYPE_BREAKPOINT, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use perf_event_open_sys::perf_event_open;
use std::ffi::CStr;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::{fs, io};

/// The type of events that are uprobes; the lowest bit of `config` makes one of a return, in
/// `format/retprobe` beside it.
const UPROBE_TYPE: &str = "/sys/bus/event_source/devices/uprobe/type";

/// What a thread does at the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It executes the instruction there; the event is before that.
    Execute,
    /// It writes there; the event is after the instruction.
    Write,
    /// It reads or writes there; likewise.
    ReadWrite,
}

/// Opens a breakpoint in a thread, and in the threads that it creates, until it executes a program;
/// what the kernel does for it is not seen. The length is 1, 2, 4 or 8, and the address a multiple
/// of it; that of an instruction has none.
///
/// # Errors
/// `ENOSPC` if the thread has no breakpoint left, `EINVAL` for another length or address.
pub fn open_breakpoint(
    thread: Pid,
    (address, length): (u64, u8),
    access: Access,
) -> io::Result<OwnedFd> {
    let (kind, length) = match access {
        // Of an instruction it is that of a `long`.
        Access::Execute => (HW_BREAKPOINT_X, HW_BREAKPOINT_LEN_8.into()),
        Access::Write => (HW_BREAKPOINT_W, length.into()),
        Access::ReadWrite => (HW_BREAKPOINT_RW, length.into()),
    };
    let mut attr = breakpoint(address, kind, length);
    attr.set_inherit(1);
    attr.set_inherit_thread(1);
    attr.set_remove_on_exec(1);
    match open(&attr, thread) {
        // Before 5.13 children inherit it, too, and it outlasts an exec.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attr.set_inherit_thread(0);
            attr.set_remove_on_exec(0);
            open(&attr, thread)
        }
        opened => opened,
    }
}

/// What [`open_trap`] needs of the system.
pub const TRAP_NEEDS: &str = "Linux 5.13 and kernel.perf_event_paranoid of at most 2";

/// Opens a breakpoint that sends the thread a `SIGTRAP`, with the code `TRAP_PERF`, before it
/// executes the instruction at the address. It is in no other thread, and ends with the descriptor.
///
/// # Errors
/// `ENOSPC` if the thread has no breakpoint left, `EACCES` if the system keeps perf events from
/// this user, `EINVAL` before Linux 5.13.
pub fn open_trap(thread: Pid, address: u64) -> io::Result<OwnedFd> {
    let mut attr = breakpoint(address, HW_BREAKPOINT_X, HW_BREAKPOINT_LEN_8.into());
    attr.set_remove_on_exec(1);
    attr.set_sigtrap(1);
    open(&attr, thread)
}

/// Opens an event of the calling thread that counts nothing (`PERF_COUNT_SW_DUMMY`). While a system
/// has no event of a thread, to open one waits until each processor has passed a quiescent state of
/// RCU, for 5 to 19 ms (`account_event` of kernel/events/core.c); with this event open, none waits.
///
/// # Errors
/// `EACCES` if the system keeps perf events from this user.
pub fn open_dummy() -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or(0),
        config: PERF_COUNT_SW_DUMMY.into(),
        ..perf_event_attr::default()
    };
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    open(&attr, Pid(0))
}

/// Opens an event before the instruction at an offset of a file, or where the function that begins
/// there returns, in the process of a thread alone: until the thread or the descriptor ends. A
/// child that the process forks has a copy, which is removed when it is hit.
///
/// # Errors
/// `ESRCH` if the thread has ended, `EINVAL` for an instruction that cannot be probed.
pub fn open_uprobe(
    thread: Pid,
    (file, offset): (&CStr, u64),
    is_return: bool,
) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: fs::read_to_string(UPROBE_TYPE)?
            .trim()
            .parse()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
        size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or(0),
        config: u64::from(is_return),
        ..perf_event_attr::default()
    };
    attr.__bindgen_anon_3.uprobe_path = file.as_ptr() as u64;
    attr.__bindgen_anon_4.probe_offset = offset;
    open(&attr, thread)
}

fn breakpoint(address: u64, kind: u32, length: u64) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_BREAKPOINT,
        size: u32::try_from(size_of::<perf_event_attr>()).unwrap_or(0),
        bp_type: kind,
        ..perf_event_attr::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    attr.__bindgen_anon_3.bp_addr = address;
    attr.__bindgen_anon_4.bp_len = length;
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

fn open(attr: &perf_event_attr, thread: Pid) -> io::Result<OwnedFd> {
    let (mut attr, tid) = (*attr, thread.0.cast_signed());
    // SAFETY: the kernel reads the structure, whose size it contains.
    let fd = unsafe { perf_event_open(&raw mut attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC.into()) };
    // SAFETY: the kernel has just created the descriptor, and nothing else owns it.
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(fd) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breakpoint_has_an_aligned_address() {
        let value = 0_u64;
        let address = (&raw const value) as u64;
        let own = Pid(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned());
        let error = open_breakpoint(own, (address + 1, 8), Access::Write).unwrap_err();
        // Or the system refuses perf events as a whole.
        assert!(
            matches!(
                error.raw_os_error(),
                Some(libc::EINVAL | libc::EACCES | libc::EPERM | libc::ENOENT)
            ),
            "{error}"
        );
    }
}
