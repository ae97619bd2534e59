//! Dumps and restores that go on: CRIU takes longer than an act may.
//!
//! In: what shall be dumped or restored, for whom. Out: that it is, or why not. A process that is
//! dumped stands until it is written down whole, and is ended then; whatever goes wrong before, it
//! runs on, also when nobody listens any more.

use super::super::act::{Dump, Happened, Mark, Target, Tool, What};
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use super::criu;
use crate::model::id::{Identity, Pid};
use rustix::process::Signal;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long CRIU may take.
const AT_MOST: Duration = Duration::from_secs(30);
/// How long the number of a process may stay taken after its end: somebody must wait for it.
const FREE_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(10);
const KILL: u32 = Signal::KILL.as_raw().cast_unsigned();

/// All that go on.
#[derive(Default)]
pub struct Moves(Vec<Move>);

struct Move {
    who: (Tool, Mark),
    dump: Dump,
    until: Instant,
    step: Step,
}

enum Step {
    /// It is written down.
    Dumping(Child, Subject),
    /// It was ended, and its number is not free yet.
    Leaving(Subject),
    /// It is made anew.
    Restoring(Child, Pid),
}

impl Moves {
    /// Begins to dump a process.
    pub fn dump(
        &mut self,
        who: (Tool, Mark),
        subject: Subject,
        dump: &Dump,
    ) -> Result<(), Trouble> {
        dump.make()?;
        let pid = subject.pid().to_string();
        let words = ["dump", "--tree", &pid, "--leave-stopped"];
        let begun = criu::begin(&words, &dump.path()).inspect_err(|_| dump.remove())?;
        self.begin(who, dump, Step::Dumping(begun, subject));
        Ok(())
    }

    /// Begins to restore one.
    pub fn restore(&mut self, who: (Tool, Mark), dump: &Dump) -> Result<(), Trouble> {
        let pid = dump.found()?;
        let begun = criu::begin(&["restore", "--restore-detached"], &dump.path())?;
        self.begin(who, dump, Step::Restoring(begun, pid));
        Ok(())
    }

    fn begin(&mut self, who: (Tool, Mark), dump: &Dump, step: Step) {
        let until = Instant::now() + AT_MOST;
        self.0.push(Move { who, dump: dump.clone(), until, step });
    }

    /// Takes in how far they are.
    pub fn turn(&mut self, told: &mut Vec<Happened>) {
        let now = Instant::now();
        for it in std::mem::take(&mut self.0) {
            match it.turn(now) {
                Ok(goes_on) => self.0.push(goes_on),
                Err(happened) => told.push(happened),
            }
        }
    }

    /// When to look again.
    pub fn next(&self) -> Option<Instant> {
        (!self.0.is_empty()).then(|| Instant::now() + LOOK)
    }

    /// Lets who is being dumped run on, and who is being restored come. To end CRIU while it has a
    /// process in its hands would end that, so it is waited for.
    pub fn undo(&mut self) {
        std::mem::take(&mut self.0).into_iter().for_each(Move::undo);
    }
}

impl Move {
    /// How it goes on, or what came of it.
    fn turn(mut self, now: Instant) -> Result<Self, Happened> {
        let is_late = now >= self.until;
        self.step = match self.step {
            Step::Dumping(mut criu, subject) => match ended(&mut criu, is_late) {
                None => Step::Dumping(criu, subject),
                Some(true) => {
                    let _gone = subject.held.signal(KILL);
                    self.until = now + FREE_WITHIN;
                    Step::Leaving(subject)
                }
                Some(false) => {
                    let _gone = subject.go_on();
                    let why = self.dump.failed("dumped; it runs on as before", is_late);
                    self.dump.remove();
                    return Err(happened(self.who, subject.id, What::Failed(why)));
                }
            },
            Step::Leaving(subject) if is_free(subject.id.pid) => {
                return Err(happened(self.who, subject.id, What::Dumped));
            }
            Step::Leaving(subject) if is_late => {
                let why = self.dump.taken(subject.id.pid);
                return Err(happened(self.who, subject.id, What::Failed(why)));
            }
            Step::Leaving(subject) => Step::Leaving(subject),
            Step::Restoring(mut criu, pid) => match ended(&mut criu, is_late) {
                None => Step::Restoring(criu, pid),
                Some(true) => return Err(self.dump.restored(self.who, pid)),
                Some(false) => {
                    let why = self.dump.failed("restored", is_late);
                    return Err(happened(self.who, Identity::default(), What::Failed(why)));
                }
            },
        };
        Ok(self)
    }

    fn undo(self) {
        let is_whole = match self.step {
            Step::Dumping(mut criu, subject) => {
                let _done = wait(&mut criu, self.until);
                let _gone = subject.go_on();
                true
            }
            Step::Leaving(_) => false,
            Step::Restoring(mut criu, _) => wait(&mut criu, self.until),
        };
        match is_whole {
            true => self.dump.remove(),
            // Its files are all that there is of it.
            false => tracing::error!("restore_process({:?}) brings it back", self.dump.name),
        }
    }
}

impl Dump {
    fn failed(&self, what: &str, is_late: bool) -> Trouble {
        if is_late {
            return Trouble::Late(format!("CRIU's work on process {}", self.name));
        }
        Trouble::Unsupported(format!("it could not be {what}: CRIU: {}", criu::told(&self.path())))
    }

    fn taken(&self, pid: Pid) -> Trouble {
        let name = &self.name;
        Trouble::State(format!(
            "nobody has waited for the end of process {}, so its number is not free: when it \
             is, restore_process({name:?}) brings it back",
            pid.0
        ))
    }

    /// Its files are needed no more.
    fn restored(&self, who: (Tool, Mark), pid: Pid) -> Happened {
        self.remove();
        match Subject::now(pid) {
            Ok(subject) => happened(who, subject.id, What::Restored),
            // It ended at once.
            Err(why) => happened(who, Identity::default(), What::Failed(why)),
        }
    }
}

fn happened(who: (Tool, Mark), process: Identity, what: What) -> Happened {
    Happened { target: Target::from(process), wanted: Some(who), what }
}

/// Whether it went well, once it is over. What is late is ended.
fn ended(criu: &mut Child, is_late: bool) -> Option<bool> {
    match criu.try_wait() {
        Ok(Some(status)) => Some(status.success()),
        Ok(None) if !is_late => None,
        Ok(None) | Err(_) => {
            let _ended = criu.kill();
            let _status = criu.wait();
            Some(false)
        }
    }
}

fn wait(criu: &mut Child, until: Instant) -> bool {
    loop {
        match ended(criu, Instant::now() >= until) {
            Some(is_done) => return is_done,
            None => std::thread::sleep(LOOK),
        }
    }
}

fn is_free(pid: Pid) -> bool {
    !Path::new(&format!("/proc/{}", pid.0)).exists()
}
