//! What must be done between fork and exec of a program that is started for somebody.

use super::trace;
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
