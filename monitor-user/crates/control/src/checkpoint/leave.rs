//! A process that leaves: written down by CRIU, looked at once more, ended.
//!
//! ```text
//!  dumping -> standing: may it go still? -> ended, until its number is free -> dumped
//!     \-> it fails        \-> no, or it was let run
//!          \---------------\-> it runs on with all its tree, and its files are removed
//! ```
//!
//! In: a process, where its files go. Out: that it is dumped, or why it runs on. CRIU begins a
//! moment after the process was looked at; when it is done the process stands, so what holds then
//! holds until it is ended.

use super::super::act::{Dump, What};
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use super::files::Files;
use super::{criu, tree};
use rustix::process::Signal;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long CRIU may take.
pub const AT_MOST: Duration = Duration::from_secs(30);
/// How long a process may take to stand when CRIU has left it, which has sent it the signal.
const STANDS_WITHIN: Duration = Duration::from_secs(2);
/// How long the number of a process may stay taken after its end: somebody must wait for it.
const FREE_WITHIN: Duration = Duration::from_secs(5);
const KILL: u32 = Signal::KILL.as_raw().cast_unsigned();

/// Whether a process may go.
pub type MayGo<'a> = &'a dyn Fn(&Subject) -> Result<(), Trouble>;

/// One that leaves.
pub struct Leave {
    /// Who.
    pub subject: Subject,
    files: Files,
    until: Instant,
    step: Step,
}

enum Step {
    /// It is written down.
    Dumping(Child),
    /// It is, and stands, or is about to.
    Standing,
    /// It was ended, and its number is not free yet.
    Ended,
}

impl Leave {
    /// Begins to dump it.
    pub fn begin(subject: Subject, dump: &Dump) -> Result<Self, Trouble> {
        let files = Files::make(dump)?;
        let pid = subject.pid().to_string();
        let words = ["dump", "--tree", &pid, "--leave-stopped"];
        let criu = criu::begin(&words, files.path()).inspect_err(|_| files.remove())?;
        let (until, step) = (Instant::now() + AT_MOST, Step::Dumping(criu));
        Ok(Self { subject, files, until, step })
    }

    /// What came of it, once something has.
    pub fn turn(&mut self, may_go: MayGo<'_>, now: Instant) -> Option<What> {
        let is_late = now >= self.until;
        if let Step::Dumping(criu) = &mut self.step {
            if !criu::ended(criu, is_late)? {
                let what = "dumped; it runs on as before";
                return Some(self.stays(criu::failed(what, self.files.path(), is_late)));
            }
            (self.step, self.until) = (Step::Standing, now + STANDS_WITHIN);
            return None;
        }
        match self.step {
            Step::Ended if self.is_free() => Some(What::Dumped),
            Step::Ended => is_late.then(|| What::Failed(self.taken())),
            _ if !is_late && self.is_to_stand() => None,
            _ => match self.end(may_go) {
                Err(why) => Some(self.stays(why)),
                Ok(()) => {
                    (self.step, self.until) = (Step::Ended, now + FREE_WITHIN);
                    None
                }
            },
        }
    }

    /// Lets it run on, if it is there still.
    pub fn undo(mut self) {
        if let Step::Dumping(criu) = &mut self.step {
            // To end CRIU while it has a process in its hands could end that.
            let _done = criu::wait(criu, self.until);
        }
        match self.step {
            Step::Ended => tracing::error!("restore_process({:?}) brings it back", self.files.name),
            Step::Dumping(_) | Step::Standing => self.let_run(),
        }
    }

    /// The last moment: its files are whole first, so that it is somewhere in any case.
    fn end(&self, may_go: MayGo<'_>) -> Result<(), Trouble> {
        if self.subject.held.has_ended() {
            return Err(Trouble::Gone); // CRIU was given a number, and may have dumped another.
        }
        may_go(&self.subject)?;
        if !stands(&self.subject) {
            let why = "somebody has let it run while it was written down; it runs on as before";
            return Err(Trouble::state(why));
        }
        self.files.give()?;
        // Who has ended by himself meanwhile has ended.
        let _gone = self.subject.held.signal(KILL);
        Ok(())
    }

    fn stays(&self, why: Trouble) -> What {
        self.let_run();
        What::Failed(why)
    }

    fn let_run(&self) {
        tree::let_run(&self.subject);
        self.files.remove();
    }

    fn is_to_stand(&self) -> bool {
        !stands(&self.subject) && !self.subject.held.has_ended()
    }

    fn is_free(&self) -> bool {
        !Path::new(&format!("/proc/{}", self.subject.id.pid.0)).exists()
    }

    fn taken(&self) -> Trouble {
        let (name, pid) = (&self.files.name, self.subject.id.pid.0);
        Trouble::State(format!(
            "nobody has waited for the end of process {pid}, so its number is not free: when it \
             is, restore_process({name:?}) brings it back"
        ))
    }
}

/// Whether each of its threads is stopped, and by a signal.
fn stands(subject: &Subject) -> bool {
    subject.threads().iter().all(|(_, stat)| stat.state == 'T')
}
