//! Checkpoint and restore: processes dumped to files and restored from them by CRIU.
//!
//! In: a process, or a dump. Out: the version of a CRIU that passes its own check; what prevents
//! moving a process; running dumps and restores. CRIU is run as a program, because its library only
//! talks to that program.

// CRIU and its files.
mod check;
mod criu;
mod files;
mod folder;
// What prevents a dump.
mod blockers;
// Jobs.
mod dump;
mod jobs;
mod recover;
mod restore;
mod tree;
// Migration without a common folder.
pub mod migration;

use super::{ControlError, process_ref::ProcessRef};
pub use check::CriuCheck;
pub use jobs::CheckpointJobs;
use std::path::Path;

/// Checks that the process can be moved to another node.
pub fn check_movable(process: &ProcessRef) -> Result<(), ControlError> {
    check_not_frozen(process)?;
    refuse_if(blockers::first_relative(process)?)?;
    check_lossless(process)
}

/// Checks that the process is not frozen: then another migration may have a copy of it.
fn check_not_frozen(process: &ProcessRef) -> Result<(), ControlError> {
    match migration::MigrationCgroup::freezes(process) {
        false => Ok(()),
        true => {
            let why = format!("process {} is frozen, or migrates already", process.pid());
            Err(ControlError::WrongState(why))
        }
    }
}

/// Checks that no data in transit to or from the process would be lost.
pub fn check_lossless(process: &ProcessRef) -> Result<(), ControlError> {
    refuse_if(blockers::first_blocker(process)?)
}

/// Checks that processes can be dumped to this folder; creates it if missing.
pub fn prepare_folder(folder: &Path) -> Result<(), ControlError> {
    folder::create(folder).map(drop)
}

fn refuse_if(tie: Option<String>) -> Result<(), ControlError> {
    match tie {
        None => Ok(()),
        Some(tie) => Err(ControlError::Unsupported(tie)),
    }
}
