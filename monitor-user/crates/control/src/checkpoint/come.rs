//! A process that comes: made anew by CRIU from its files.
//!
//! In: the files. Out: the process, or why there is none; its files are back then for whoever
//! tries next.

use super::super::act::{Dump, What};
use super::super::subject::Subject;
use super::criu;
use super::files::Files;
use super::leave::AT_MOST;
use crate::trouble::Trouble;
use monitor_model::id::{Identity, Ns};
use std::process::Child;
use std::time::Instant;

/// One that comes.
pub struct Come {
    files: Files,
    until: Instant,
    criu: Child,
}

impl Come {
    /// Begins to restore it.
    pub fn begin(dump: &Dump) -> Result<Self, Trouble> {
        let files = Files::take(dump)?;
        match criu::begin(&["restore", "--restore-detached"], files.path()) {
            Ok(criu) => Ok(Self { files, until: Instant::now() + AT_MOST, criu }),
            Err(why) => {
                give_back(&files);
                Err(why)
            }
        }
    }

    /// What came of it, once something has, and who it is.
    pub fn turn(&mut self, now: Instant) -> Option<(Identity, What)> {
        let is_late = now >= self.until;
        if criu::ended(&mut self.criu, is_late)? {
            self.files.remove();
            return Some((self.who(), What::Restored));
        }
        let why = criu::failed("restored", self.files.path(), is_late);
        give_back(&self.files);
        Some((Identity::default(), What::Failed(why)))
    }

    /// Waits until it is there.
    pub fn undo(mut self) {
        match criu::wait(&mut self.criu, self.until) {
            true => self.files.remove(),
            false => {
                give_back(&self.files);
                tracing::error!("restore_process({:?}) brings it back", self.files.name);
            }
        }
    }

    /// One that has ended at once was there all the same; nobody knows when it began.
    fn who(&self) -> Identity {
        let pid = self.files.pid;
        Subject::now(pid).map_or(Identity { pid, start: Ns(0) }, |it| it.id)
    }
}

fn give_back(files: &Files) {
    if let Err(why) = files.give() {
        tracing::error!("what is left of process {} cannot be given back: {why}", files.name);
    }
}
