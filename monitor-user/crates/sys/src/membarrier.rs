//! Waits until no CPU still executes a BPF program that was replaced or detached.

use std::io;

/// `MEMBARRIER_CMD_GLOBAL` of include/uapi/linux/membarrier.h.
const GLOBAL: libc::c_int = 1;

/// Returns once every BPF program that is running now has returned: the kernel waits for its RCU
/// readers (`synchronize_rcu` in kernel/sched/membarrier.c), which takes some ten milliseconds.
///
/// # Errors
///
/// `EINVAL` where CPUs run without a tick (nohz_full).
pub fn global() -> io::Result<()> {
    // SAFETY: membarrier(2) takes three integers.
    match unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
