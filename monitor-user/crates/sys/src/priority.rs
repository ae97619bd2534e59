//! Real-time priority for a thread of this process.

use std::io;

/// Gives the calling thread the lowest real-time priority (sched(7), SCHED_FIFO), so that it runs
/// before all ordinary threads. Meant for a thread that reads a ring buffer and sleeps. Needs
/// CAP_SYS_NICE or a real-time priority limit (`LimitRTPRIO=` of a systemd unit).
pub fn set_fifo() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: sched_setscheduler(2) reads one record, which outlives the call; 0 is the
    // calling thread. Its children do not inherit the priority.
    let rc = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const lowest)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
