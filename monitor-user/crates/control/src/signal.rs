//! Signals and nice values: acts that need no stop.

use super::subject::{Subject, raw};
use super::trouble::Trouble;
use monitor_event::thread::Target;
use monitor_model::id::Pid;
use monitor_sys::pidfd::Held;
use rustix::io::Errno;
use rustix::process::{Pid as RawPid, setpriority_process};
use std::collections::BTreeSet;
use std::io;

/// Signals are 1 to 64 on all machines that we know.
const LAST_SIGNAL: i32 = 64;
/// setpriority(2).
const NICE: std::ops::RangeInclusive<i32> = -20..=19;

/// Sends a signal to the process or to the one thread.
pub fn kill(subject: &Subject, target: &Target, signal: i32) -> Result<(), Trouble> {
    if !(1..=LAST_SIGNAL).contains(&signal) {
        return Err(Trouble::Range(format!("{signal} is no signal; they are 1 to {LAST_SIGNAL}")));
    }
    let sent = match target.thread {
        None => subject.held.signal(signal.cast_unsigned()),
        Some(thread) => to_thread(subject, target, thread.pid, signal)?,
    };
    sent.map_err(|error| denied(&error).unwrap_or_else(|| Trouble::of("pidfd_send_signal", &error)))
}

/// The outer error is about the thread, the inner one about the signal.
fn to_thread(
    subject: &Subject,
    target: &Target,
    tid: Pid,
    signal: i32,
) -> Result<io::Result<()>, Trouble> {
    let held = match Held::thread(tid) {
        Ok(held) => held,
        // Kernels before 6.9 hold processes only, and for these one thread is as good.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            let _there = subject.thread(target)?;
            return Ok(monitor_sys::pidfd::thread_kill(subject.pid(), raw(tid), signal));
        }
        Err(error) => return Err(Trouble::of("pidfd_open", &error)),
    };
    // Held first, then looked at: who has the number after it was opened has had it ever since.
    let _it = subject.thread(target)?;
    Ok(held.signal(signal.cast_unsigned()))
}

/// Sets the nice value of every thread, or of the one.
pub fn nice(subject: &Subject, target: &Target, value: i32) -> Result<(), Trouble> {
    if !NICE.contains(&value) {
        return Err(Trouble::Range(format!("{value} is no nice value; they are -20 to 19")));
    }
    if target.thread.is_some() {
        return set(subject.thread(target)?, value);
    }
    // Threads that are born meanwhile have the value of the one that made them.
    let mut seen = BTreeSet::new();
    loop {
        let threads = subject.threads();
        let new: Vec<i32> =
            threads.iter().map(|(tid, _)| *tid).filter(|tid| seen.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        for tid in new {
            match set(tid, value) {
                Err(Trouble::Gone) => {} // That thread has ended.
                other => other?,
            }
        }
    }
    if subject.held.has_ended() { Err(Trouble::Gone) } else { Ok(()) }
}

fn set(tid: i32, value: i32) -> Result<(), Trouble> {
    let set = setpriority_process(RawPid::from_raw(tid), value).map_err(io::Error::from);
    set.map_err(|error| denied(&error).unwrap_or_else(|| Trouble::of("setpriority", &error)))
}

fn denied(error: &io::Error) -> Option<Trouble> {
    (error.kind() == io::ErrorKind::PermissionDenied)
        .then(|| Trouble::denied("that", "its user's rights; a lower nice value, CAP_SYS_NICE"))
}
