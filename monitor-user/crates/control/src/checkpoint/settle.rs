//! A dump whose hand has died: CRIU goes on without it, and leaves the process stopped.
//!
//! In: who was dumped, and where to. Out: that it runs on, and nothing is left of its files; if
//! that hand has ended it, its files stay for who restores it.

use super::super::act::Dump;
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use super::files::Files;
use super::leave::AT_MOST;
use super::{criu, tree};
use monitor_model::id::Identity;
use rustix::process::Signal;
use std::time::Instant;

const KILL: i32 = Signal::KILL.as_raw();

/// One that is settled when CRIU is done.
pub struct Settle {
    files: Files,
    /// Nobody, if it has ended.
    subject: Option<Subject>,
    until: Instant,
}

impl Settle {
    /// Of a process that another hand was dumping.
    pub fn begin(id: Identity, dump: &Dump) -> Result<Self, Trouble> {
        let subject = match Subject::open(id) {
            Err(Trouble::Gone) => None,
            other => Some(other?),
        };
        let files = Files::left(dump).inspect_err(|why| {
            // Others may reach the files now, so nothing is done there; he must run all the same.
            if matches!(why, Trouble::Denied { .. }) {
                subject.iter().for_each(Subject::let_run);
            }
        })?;
        Ok(Self { files, subject, until: Instant::now() + AT_MOST })
    }

    /// Whether it is settled.
    pub fn turn(&self, now: Instant) -> bool {
        if self.is_at_work(now) {
            return false;
        }
        match self.subject.as_ref().filter(|it| !it.held.has_ended()) {
            // That hand died before it began.
            _ if !self.files.are_there() => {}
            // The files are whole before it is ended, so it was not that hand who did it.
            None if !self.files.are_whole() => self.files.remove(),
            None => tracing::error!("restore_process({:?}) brings it back", self.files.name),
            Some(subject) => {
                tree::let_run(subject);
                self.files.remove();
            }
        }
        true
    }

    /// Waits until it is.
    pub fn undo(&self) {
        while !self.turn(Instant::now()) {
            std::thread::sleep(criu::LOOK);
        }
    }

    /// Whether CRIU has it, or it is about to end.
    fn is_at_work(&self, now: Instant) -> bool {
        let status = self.subject.as_ref().and_then(|it| it.proc().ok()?.status().ok());
        // Where files cannot be locked, a tracer is all that can be seen of CRIU.
        let is_held =
            status.is_some_and(|it| it.tracerpid != 0 || is_ending(it.sigpnd | it.shdpnd));
        now < self.until && (is_held || criu::is_at(self.files.path()))
    }
}

/// Whether these signals, which wait for it, end it.
const fn is_ending(pending: u64) -> bool {
    pending >> (KILL - 1) & 1 == 1
}
