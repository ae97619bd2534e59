//! The scheduling of our own threads.

use std::io;

/// Lets the calling thread run before all ordinary ones, as soon as it can (sched(7), SCHED_FIFO):
/// for one that reads what must not wait, and sleeps as soon as it has. Needs CAP_SYS_NICE or a
/// limit of real-time priority (`LimitRTPRIO=` of a unit).
pub fn run_first() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: sched_setscheduler(2) reads one record, which lives until it returns; 0 is the
    // calling thread. What it starts is not to inherit this.
    let rc = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const lowest)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
