//! Ranks on which a command could not act, and why.
//!
//! In: an error for each such process. Out: a note for each, and the failure if nothing was done.

use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_control::ControlError;
use monitor_model::Identity;
use std::collections::BTreeSet;

/// What is missing of a request, and why.
#[derive(Default)]
pub struct RankErrors {
    /// A line for each.
    pub notes: BTreeSet<String>,
    first: Option<ControlError>,
}

impl RankErrors {
    /// Adds an error on a process of a rank.
    pub fn add(&mut self, (rank, process): (u32, Identity), why: ControlError) {
        self.notes.insert(format!("rank {rank} (process {}): {why}", process.pid.0));
        self.first.get_or_insert(why);
    }

    /// Adds an error on the launcher.
    pub fn add_launcher(&mut self, launcher: Identity, why: ControlError) {
        self.notes.insert(format!("launcher {}: {why}", launcher.pid.0));
        self.first.get_or_insert(why);
    }

    /// Adds an error on a thread of a rank.
    pub fn add_thread(&mut self, (rank, process): (u32, Identity), tid: i32, why: ControlError) {
        let pid = process.pid.0;
        self.notes.insert(format!("rank {rank} (process {pid}), thread {tid}: {why}"));
        self.first.get_or_insert(why);
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The failure if the command could act on no rank; `None` if there was no error.
    pub fn failure(&self) -> Option<Failure> {
        let why = self.first.as_ref()?;
        let exit = match why {
            ControlError::Denied { .. } => Exit::Denied,
            ControlError::Gone => Exit::NoTarget,
            _ => Exit::Failed,
        };
        let more = match self.notes.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let note = self.notes.first().cloned().unwrap_or_else(|| why.to_string());
        Some(Failure { message: format!("{note}{more}"), exit })
    }

    /// Prints the text of a command that was done for some ranks, and the notes on standard error.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn finish(&self, text: &str) -> Result<Exit, Failure> {
        let printed = output::print(text.as_bytes())?;
        self.notes.iter().for_each(|note| output::notice(note));
        Ok(if self.is_empty() { printed } else { Exit::Partial })
    }
}
