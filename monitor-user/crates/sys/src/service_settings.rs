//! What a service has and the programs that it starts for users must not have: a negative nice
//! value, protection from the OOM killer, locked memory without a limit, ignored signals.

use rustix::process::{Resource, Rlimit, getpriority_process, getrlimit, setpriority_process};
use std::io;

/// The default limit of locked memory, as `MLOCK_LIMIT` of include/uapi/linux/resource.h.
const LOCKED_BYTES: u64 = 8 << 20;
const OOM_SCORE_ADJ: &str = "/proc/self/oom_score_adj";

/// Gives up what is more than any user has, for this process and its children. Call it before the
/// process becomes another user, which may not write its own `oom_score_adj` then.
///
/// # Errors
///
/// If the kernel refuses a change; a user may make all of them.
pub fn give_up() -> io::Result<()> {
    if getpriority_process(None)? < 0 {
        setpriority_process(None, 0)?;
    }
    let score = std::fs::read_to_string(OOM_SCORE_ADJ)?;
    if score.trim().parse().is_ok_and(|it: i32| it < 0) {
        std::fs::write(OOM_SCORE_ADJ, "0")?;
    }
    if getrlimit(Resource::Memlock).maximum.is_none_or(|it| it > LOCKED_BYTES) {
        let limit = Rlimit { current: Some(LOCKED_BYTES), maximum: Some(LOCKED_BYTES) };
        rustix::process::setrlimit(Resource::Memlock, limit)?;
    }
    usual_policy()
}

/// Sets the usual scheduling policy; one that is less is kept.
fn usual_policy() -> io::Result<()> {
    // SAFETY: one integer; 0 is the calling process.
    let policy = unsafe { libc::sched_getscheduler(0) };
    if !matches!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR) {
        return Ok(());
    }
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: sched_setscheduler(2) reads one record, which outlives the call.
    let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const none) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
