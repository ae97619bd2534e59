//! Processes that leave and come: dumped to files and restored from them by CRIU.
//!
//! In: nobody, for the check, or a process. Out: the version of a CRIU that passes its own check;
//! what ties a process to where it is; dumps and restores that go on. CRIU is a program, and its
//! library only talks to that program.

// CRIU, and where it works.
mod check;
mod criu;
mod files;
mod folder;
// What is in the way of a process.
mod outside;
// What becomes of one, step by step.
mod come;
mod leave;
mod moves;
mod settle;
mod tree;

use super::subject::Subject;
use super::trouble::Trouble;
pub use check::Check;
pub use moves::Moves;
use std::path::Path;

/// Whether nothing ties the process to where it is.
pub fn is_free(subject: &Subject) -> Result<(), Trouble> {
    without(outside::kin(subject)?)?;
    is_lossless(subject)
}

/// Whether nothing would be lost that is on its way to the process or from it.
pub fn is_lossless(subject: &Subject) -> Result<(), Trouble> {
    without(outside::tie(subject)?)
}

/// Whether processes can be dumped to this folder, which is made if it is not there.
pub fn takes(folder: &Path) -> Result<(), Trouble> {
    folder::made(folder).map(drop)
}

fn without(tie: Option<String>) -> Result<(), Trouble> {
    match tie {
        None => Ok(()),
        Some(tie) => Err(Trouble::Unsupported(tie)),
    }
}
