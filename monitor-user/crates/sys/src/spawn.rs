//! What must be done between fork and exec of a program that is started for somebody.

use super::trace;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// With no signal blocked, whatever is blocked here.
pub fn unblocked(command: &mut Command) {
    // SAFETY: between fork and exec it makes system calls only and touches no lock and no heap.
    let _command =
        unsafe { command.pre_exec(|| Ok(nix::sys::signal::SigSet::empty().thread_set_mask()?)) };
}

/// Traced by the thread that starts it, so that it stops before its first instruction.
pub fn traced(command: &mut Command) {
    // SAFETY: as above, one system call.
    let _command = unsafe { command.pre_exec(trace::trace_me) };
}

/// With a descriptor more, as its number 3; whoever starts it has others of that number, and keeps
/// them.
pub fn with_third(command: &mut Command, fd: OwnedFd) {
    let dup = move || {
        // SAFETY: it is given two numbers, of which the first stays open as long as this is there.
        let there = unsafe { libc::dup2(fd.as_raw_fd(), 3) };
        // It may have had the number before, and would close as the program begins.
        // SAFETY: it is given numbers.
        let stays = unsafe { libc::fcntl(3, libc::F_SETFD, 0) };
        if there == -1 || stays == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec it makes system calls only and touches no lock and no heap.
    let _command = unsafe { command.pre_exec(dup) };
}
