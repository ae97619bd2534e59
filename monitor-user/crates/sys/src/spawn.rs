//! Settings applied between fork and exec of a child process, and the end of that exec.
//!
//! In: a `Command`. Out: the same, with one more step in the child before exec.

use super::ptrace;
use nix::sys::signal::SigSet;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::{io, os::unix::process::CommandExt as _, process::Command};

/// Starts the program with no signal blocked and none ignored, whatever this process does.
pub fn default_signals(command: &mut Command) {
    let set = || {
        for number in 1..=libc::SIGRTMAX() {
            // SAFETY: no handler is set. SIGKILL, SIGSTOP and those of libc are refused.
            let _refused = unsafe { libc::signal(number, libc::SIG_DFL) };
        }
        Ok(SigSet::empty().thread_set_mask()?)
    };
    // SAFETY: between fork and exec the closure makes system calls only and uses no lock and no
    // heap.
    let _command = unsafe { command.pre_exec(set) };
}

/// Starts the program with these signals blocked, and no others.
pub fn with_signal_mask(command: &mut Command, mask: SigSet) {
    // SAFETY: as above, one system call.
    let _command = unsafe { command.pre_exec(move || Ok(mask.thread_set_mask()?)) };
}

/// Makes the starting thread the tracer, so that the program stops before its first instruction.
pub fn trace_me(command: &mut Command) {
    // SAFETY: as above, one system call.
    let _command = unsafe { command.pre_exec(ptrace::trace_me) };
}

/// Resumes the program when the starting thread ends, if it is stopped then (`PR_SET_PDEATHSIG`).
pub fn resume_with_parent(command: &mut Command) {
    let set = || {
        let signal = Some(rustix::process::Signal::CONT);
        Ok(rustix::process::set_parent_process_death_signal(signal)?)
    };
    // SAFETY: as above, one system call.
    let _command = unsafe { command.pre_exec(set) };
}

/// Kills the program when the starting thread ends, however it ends (`PR_SET_PDEATHSIG`).
pub fn end_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    let set = move || {
        let signal = Some(rustix::process::Signal::KILL);
        rustix::process::set_parent_process_death_signal(signal)?;
        // The parent may have ended before the signal was set.
        let is_there = rustix::process::getppid() == Some(parent);
        if is_there { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec the closure makes system calls only and uses no lock and no
    // heap.
    let _command = unsafe { command.pre_exec(set) };
}

/// Puts the program into cgroups before it is executed: each file is the open `cgroup.procs` of
/// one. What the kernel refuses has no effect; `/proc/<pid>/cgroup` shows where the program is.
pub fn in_cgroups(command: &mut Command, files: Vec<File>) {
    let enter = move || {
        for mut file in &files {
            // 0 is the writing process (cgroups(7)).
            let _refused = file.write(b"0");
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only and uses no lock and no
    // heap.
    let _command = unsafe { command.pre_exec(enter) };
}

/// Waits until a started program has its own name. `Command::spawn` returns when the execution has
/// closed the descriptors of the copy, and until a few microseconds later the kernel names it as
/// its parent (`begin_new_exec` of fs/exec.c).
pub fn wait_for_exec(pid: u32) {
    // Opening waits for the lock that the execution holds (`exec_update_lock`, `mm_access`). It may
    // be refused, or the program may have ended: both are after the execution.
    let _opened = std::fs::File::open(format!("/proc/{pid}/auxv"));
}

/// Passes a descriptor to the program as descriptor 3. The parent's descriptor 3 is not affected.
pub fn with_fd3(command: &mut Command, fd: OwnedFd) {
    let dup = move || {
        // SAFETY: two integers; the closure keeps the first descriptor open.
        let copied = unsafe { libc::dup2(fd.as_raw_fd(), 3) };
        // If it was descriptor 3 already, dup2(2) left its close-on-exec flag set.
        // SAFETY: three integers.
        let kept = unsafe { libc::fcntl(3, libc::F_SETFD, 0) };
        if copied == -1 || kept == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec the closure makes system calls only and uses no lock and no
    // heap.
    let _command = unsafe { command.pre_exec(dup) };
}
