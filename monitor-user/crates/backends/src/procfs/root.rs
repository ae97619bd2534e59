//! Where the files are: the roots of `/proc` and `/sys`, or of a copy.

use monitor_model::Note;
use std::path::{Path, PathBuf};

/// Roots of the files: `/proc` and `/sys`, or copies.
#[derive(Clone, Debug)]
pub struct Root {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for Root {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Root {
    /// A tree that contains the directories `proc` and `sys`.
    pub fn below(tree: &Path) -> Self {
        Self { proc: tree.join("proc"), sys: tree.join("sys") }
    }
}

/// The text of a file; adds a note if it cannot be read.
pub fn text_of(path: &Path, notes: &mut Vec<Note>) -> Option<Vec<u8>> {
    match std::fs::read(path) {
        Ok(text) => Some(text),
        Err(error) => {
            notes.push(Note::missing(format!("no values of {}: {error}", path.display())));
            None
        }
    }
}
