//! Signals and nice values, which need no stopped target.
//!
//! In: a process or thread, a number. Out: success, or the kernel's refusal.

use super::ControlError;
use super::process_ref::{ProcessRef, raw_pid};
use monitor_event::Target;
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use rustix::io::Errno;
use rustix::process::{Pid as RawPid, setpriority_process};
use std::{collections::BTreeSet, io};

/// Signals are 1 to 64 on all supported architectures.
const LAST_SIGNAL: i32 = 64;
/// setpriority(2).
const NICE: std::ops::RangeInclusive<i32> = -20..=19;

/// Sends a signal to the process, or to the named thread.
pub fn kill(process: &ProcessRef, target: &Target, signal: i32) -> Result<(), ControlError> {
    check(signal)?;
    let sent = match target.thread {
        None => process.pidfd.signal(signal.cast_unsigned()),
        Some(thread) => signal_thread(process, target, thread.pid, signal)?,
    };
    sent.map_err(|error| {
        denied(&error).unwrap_or_else(|| ControlError::from_io("pidfd_send_signal", &error))
    })
}

/// Refuses a number that is no signal.
pub fn check(signal: i32) -> Result<(), ControlError> {
    if (1..=LAST_SIGNAL).contains(&signal) {
        return Ok(());
    }
    let text = format!("invalid signal {signal}: signals are 1 to {LAST_SIGNAL}");
    Err(ControlError::InvalidArgument(text))
}

/// The outer error concerns the thread, the inner one the signal.
fn signal_thread(
    process: &ProcessRef,
    target: &Target,
    tid: Pid,
    signal: i32,
) -> Result<io::Result<()>, ControlError> {
    let held = match PidFd::open_thread(tid) {
        Ok(held) => held,
        // Kernels before 6.9 have no pidfds of threads; the thread is named by number there.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            let _there = process.thread(target)?;
            return Ok(monitor_sys::pidfd::tgkill(process.pid(), raw_pid(tid), signal));
        }
        Err(error) => return Err(ControlError::from_io("pidfd_open", &error)),
    };
    // Checked after the pidfd was opened, so the check and the signal concern the same thread.
    let _it = process.thread(target)?;
    Ok(held.signal(signal.cast_unsigned()))
}

/// Sets the nice value of every thread, or of the named one.
pub fn nice(process: &ProcessRef, target: &Target, value: i32) -> Result<(), ControlError> {
    if !NICE.contains(&value) {
        return Err(ControlError::InvalidArgument(format!(
            "invalid nice value {value}: nice values are -20 to 19"
        )));
    }
    if target.thread.is_some() {
        return set_nice(process.thread(target)?, value);
    }
    // A new thread inherits the value of its creator, so repeat until no thread is new.
    let mut seen = BTreeSet::new();
    loop {
        let threads = process.threads();
        let new: Vec<i32> =
            threads.iter().map(|(tid, _)| *tid).filter(|tid| seen.insert(*tid)).collect();
        if new.is_empty() {
            break;
        }
        for tid in new {
            match set_nice(tid, value) {
                Err(ControlError::Gone) => {} // That thread has ended.
                other => other?,
            }
        }
    }
    if process.pidfd.has_ended() { Err(ControlError::Gone) } else { Ok(()) }
}

fn set_nice(tid: i32, value: i32) -> Result<(), ControlError> {
    let set = setpriority_process(RawPid::from_raw(tid), value).map_err(io::Error::from);
    set.map_err(|error| {
        denied(&error).unwrap_or_else(|| ControlError::from_io("setpriority", &error))
    })
}

fn denied(error: &io::Error) -> Option<ControlError> {
    (error.kind() == io::ErrorKind::PermissionDenied).then(|| {
        ControlError::denied(
            "changing the process",
            "the same user; CAP_SYS_NICE to lower a nice value",
        )
    })
}
