//! Waiting until nobody is in the middle of what was there before.

use std::io;

/// `MEMBARRIER_CMD_GLOBAL` of include/uapi/linux/membarrier.h.
const GLOBAL: libc::c_int = 1;

/// Returns when every program that the kernel runs now has come to its end: the kernel waits for
/// its readers (`synchronize_rcu` in kernel/sched/membarrier.c), some ten milliseconds. Refused
/// where processors run without a tick (nohz_full).
pub fn settle() -> io::Result<()> {
    // SAFETY: membarrier(2) takes three numbers.
    match unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
