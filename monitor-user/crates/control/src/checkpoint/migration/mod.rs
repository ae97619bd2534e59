//! A process that migrates without a folder that both nodes see: dumped and left frozen, and
//! restored frozen.
//!
//! In: a process, or its images. Out: images and a frozen process. Nothing thaws it but the caller,
//! by `MigrationCgroup`, when it knows which of the two copies is to run. These calls block.

mod cgroup;
mod changed_code;
mod guard;
mod place;

use super::{check::CriuCheck, criu, dump::MAX_CRIU_TIME};
use crate::process_ref::ProcessRef;
use crate::{ControlError, deadline::DeadlineWait};
pub use cgroup::MigrationCgroup;
pub use guard::Guard;
use monitor_model::{Identity, Pid};
pub use place::MigrationPlace;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most time of `criu check`, which tries the kernel features that it needs.
const MAX_CHECK_TIME: Duration = Duration::from_secs(10);
const FREEZE: &str = include_str!("freeze.sh");
const HOLD: &str = include_str!("hold.sh");

/// Whether CRIU works here.
///
/// # Errors
/// It is missing, or fails its own check.
pub fn check_criu() -> Result<String, ControlError> {
    CriuCheck::default().version(&mut DeadlineWait::new(MAX_CHECK_TIME, None))
}

/// Checks that a process can migrate: nothing that it shares with others here would be lost, no
/// tool has it, and its code is that of its files.
///
/// # Errors
/// What prevents it.
pub fn check_migratable(process: &ProcessRef) -> Result<(), ControlError> {
    if let state @ ('T' | 't' | 'Z' | 'X') = process.stat()?.state {
        let pid = process.pid();
        let why = format!("process {pid} is stopped or ends (state {state}): resume it first");
        return Err(ControlError::WrongState(why));
    }
    if let Some(tracer) = process.tracer() {
        return Err(ControlError::AlreadyTraced { tracer });
    }
    super::check_movable(process)?;
    super::refuse_if(changed_code::first_changed(process)?)
}

/// Checks that a process with this pid can be restored here.
///
/// # Errors
/// Another process has it.
pub fn check_pid_is_free(pid: Pid) -> Result<(), ControlError> {
    match Path::new(&format!("/proc/{}", pid.0)).exists() {
        false => Ok(()),
        true => {
            let why = format!("another process of this node has the pid {}", pid.0);
            Err(ControlError::WrongState(why))
        }
    }
}

/// Dumps a process, and leaves it frozen in the cgroup of the place.
///
/// # Errors
/// It cannot be dumped. It runs on then, and nothing is left.
pub fn dump_frozen(process: &ProcessRef, place: &MigrationPlace) -> Result<(), ControlError> {
    place.create()?;
    place.cgroup.create()?;
    let dumped = dump_in(process, place);
    if dumped.is_err() {
        place.cgroup.dissolve()?;
        place.remove_folder();
    }
    dumped
}

fn dump_in(process: &ProcessRef, place: &MigrationPlace) -> Result<(), ControlError> {
    place.cgroup.enter(process.id.pid)?;
    if process.pidfd.has_ended() {
        return Err(ControlError::Gone);
    }
    let pid = process.pid().to_string();
    let words = ["dump", "--tree", &pid, "--leave-running"];
    let started = Instant::now();
    if !place.run_criu(&words, ("freeze.sh", FREEZE))? {
        let is_late = started.elapsed() >= MAX_CRIU_TIME;
        return Err(criu::failure("dumped; it runs on as before", &place.images(), is_late));
    }
    if process.pidfd.has_ended() {
        return Err(ControlError::Gone);
    }
    if !place.cgroup.is_frozen() {
        let why = "the process was thawed by another program during its dump; it runs on as before";
        return Err(ControlError::wrong_state(why));
    }
    // What was put into it while CRIU came is in the images.
    super::refuse_if(changed_code::first_changed(process)?)
}

/// Restores a process from the images of the place, and leaves it frozen in the cgroup.
///
/// # Errors
/// It cannot be restored. There is no copy then.
pub fn restore_frozen(pid: Pid, place: &MigrationPlace) -> Result<Identity, ControlError> {
    let restored = restore_in(pid, place);
    if restored.is_err() {
        place.cgroup.kill()?;
    }
    restored
}

fn restore_in(pid: Pid, place: &MigrationPlace) -> Result<Identity, ControlError> {
    check_pid_is_free(pid)?;
    place.cgroup.create()?;
    let started = Instant::now();
    if !place.run_criu(&["restore", "--restore-detached"], ("hold.sh", HOLD))? {
        let is_late = started.elapsed() >= MAX_CRIU_TIME;
        return Err(criu::failure("restored", &place.images(), is_late));
    }
    let id = ProcessRef::open_current(pid)?.id;
    match place.cgroup.is_frozen() {
        true => Ok(id),
        false => Err(ControlError::wrong_state("CRIU has not left the process frozen")),
    }
}
