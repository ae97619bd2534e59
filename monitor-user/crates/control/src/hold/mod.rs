//! Processes that stand still because tools want it, and for whom they do.
//!
//! In: who wants which process stopped, or let go. Out: that it is, in all its threads, and how.
//! A process is let run when its last holder lets go, unless it stood still before the first came.
//! Single threads are `trace`'s.

mod freezer;
mod guard;

use super::act::{Happened, Method, Tool, What};
use super::holder::{Cause, HELD_AT_MOST};
use super::patience::Patience;
use super::subject::{Subject, key};
use super::trouble::Trouble;
use freezer::Freezer;
pub use guard::{Guards, UNREAD_FOR};
use monitor_event::thread::Target;
use monitor_model::id::Identity;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const STOP: u32 = Signal::STOP.as_raw().cast_unsigned();
/// How often it is looked whether somebody else has let a process run. Nothing wakes us: only its
/// parent is told (waitpid(2)).
pub const LOOK: Duration = Duration::from_millis(20);

/// How long a process that a kernel program has stopped is waited for: its other threads.
const STILL_WITHIN: Duration = Duration::from_millis(200);

/// All that stand still.
#[derive(Default)]
pub struct Holds(BTreeMap<Identity, Hold>);

struct Hold {
    subject: Subject,
    means: Means,
    /// Who, and until when.
    holders: BTreeMap<(Tool, Cause), Option<Instant>>,
    /// A kernel program has sent it a signal that stops it, whatever else holds it.
    caught: bool,
    /// It stood still before the first holder came, so none of them lets it run.
    before: bool,
}

enum Means {
    Freezer(Freezer),
    Signal,
}

impl Holds {
    /// Stops a process for a tool.
    pub fn stop(
        &mut self,
        tool: Tool,
        subject: Subject,
        patience: &mut Patience<'_>,
        turn: &mut dyn FnMut(),
    ) -> Result<Method, Trouble> {
        let id = key(subject.id);
        if let Some(hold) = self.0.get_mut(&id) {
            let _again = hold.holders.insert((tool, Cause::Stop), None);
            return Ok(hold.method());
        }
        let hold = Hold::begin(subject, tool, patience, turn)?;
        let method = hold.method();
        let _none = self.0.insert(id, hold);
        Ok(method)
    }

    /// Holds a process that a kernel program has stopped, for the event that it did so at. The
    /// event may have been another's: then `is_else` says so, and nobody is held here.
    pub fn catch(
        &mut self,
        holder: (Tool, Cause),
        subject: Subject,
        is_else: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Method>, Trouble> {
        let mut patience = Patience::new(STILL_WITHIN, None);
        while !is_still(&subject) && !is_else() {
            if subject.held.has_ended() {
                return Err(Trouble::Gone);
            }
            // One whose other threads do not come to a stop is held all the same.
            if patience.wait("stopping all its threads").is_err() {
                break;
            }
        }
        if is_else() {
            return Ok(None);
        }
        let hold = self.0.entry(key(subject.id)).or_insert_with(|| Hold {
            means: Means::Signal,
            holders: BTreeMap::new(),
            caught: true,
            before: false,
            subject,
        });
        hold.caught = true;
        let until = Some(Instant::now() + HELD_AT_MOST);
        let _again = hold.holders.insert(holder, until);
        Ok(Some(hold.method()))
    }

    /// Whether anybody holds a process.
    pub fn has(&self, id: Identity) -> bool {
        self.0.contains_key(&key(id))
    }

    /// Whether a tool holds a process for this.
    pub fn holds(&self, holder: (Tool, Cause), id: Identity) -> bool {
        self.0.get(&key(id)).is_some_and(|hold| hold.holders.contains_key(&holder))
    }

    /// Lets go of it for a tool that has stopped it.
    pub fn release(&mut self, tool: Tool, id: Identity) -> Result<(), Trouble> {
        self.let_go((tool, Cause::Stop), id)
    }

    /// Lets go of it for a tool that has, for this.
    pub fn let_go(&mut self, holder: (Tool, Cause), id: Identity) -> Result<(), Trouble> {
        let id = key(id);
        let hold = self.0.get_mut(&id).filter(|hold| hold.holders.contains_key(&holder));
        let hold = hold.ok_or_else(|| Trouble::state("this tool has not stopped the process"))?;
        if hold.holders.len() > 1 {
            let _other = hold.holders.remove(&holder);
            return Ok(());
        }
        hold.end()?;
        let _ended = self.0.remove(&id);
        Ok(())
    }

    /// One that was started stopped is held already.
    pub fn adopt(&mut self, tool: Tool, subject: Subject) {
        let holders = stopped_by(tool);
        let hold = Hold { means: Means::Signal, holders, caught: false, before: false, subject };
        let _none = self.0.insert(key(hold.subject.id), hold);
    }

    /// Whether a tool may let a thread of the process run an errand, while the rest stands still.
    pub fn may_run(&mut self, tool: Tool, id: Identity) -> Result<(), Trouble> {
        let Some(hold) = self.0.get_mut(&key(id)) else { return Ok(()) };
        if hold.holders.keys().any(|(holder, _)| *holder != tool) {
            return Err(Trouble::Locked);
        }
        hold.soften()
    }

    /// The tool has gone.
    pub fn forget(&mut self, tool: Tool) {
        let mut its = Vec::new();
        for (id, hold) in &self.0 {
            its.extend(hold.holders.keys().filter(|it| it.0 == tool).map(|it| (*it, *id)));
        }
        for (holder, id) in its {
            // One that cannot be let go has ended.
            let _gone = self.let_go(holder, id);
        }
    }

    /// Lets all of them run.
    pub fn undo(&mut self) {
        for hold in std::mem::take(&mut self.0).into_values() {
            let _gone = hold.end();
        }
    }

    /// Stops again what somebody else has let run, and forgets what has ended.
    /// A process that runs an errand for us is let be.
    pub fn turn(&mut self, busy: &dyn Fn(Identity) -> bool, told: &mut Vec<Happened>) {
        let mut say = |id: Identity, what| {
            told.push(Happened { target: Target::from(id), wanted: None, what });
        };
        self.0.retain(|id, hold| {
            if hold.subject.held.has_ended() {
                say(hold.subject.id, What::Ended);
                return false;
            }
            if !busy(*id) && hold.escaped() && hold.subject.held.signal(STOP).is_ok() {
                // Who let it run also let go of what stopped it before us.
                hold.before = false;
                say(hold.subject.id, What::StoppedAgain);
            }
            true
        });
    }

    /// Lets go of those who are held for an event for too long, and says so.
    pub fn expire(&mut self, now: Instant, told: &mut Vec<Happened>) {
        let mut late = Vec::new();
        for (id, hold) in &self.0 {
            let over = hold.holders.iter().filter(|(_, until)| until.is_some_and(|it| it <= now));
            late.extend(over.map(|(holder, _)| (*holder, *id)));
        }
        for (holder, id) in late {
            // One that cannot be let go has ended.
            let _gone = self.let_go(holder, id);
            if let (tool, Cause::Met(mark, target)) = holder {
                let wanted = Some((tool, mark));
                told.push(Happened { target, wanted, what: What::Overdue(HELD_AT_MOST) });
            }
        }
    }

    /// When somebody is held for too long, if nobody lets him go before.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.values().flat_map(|hold| hold.holders.values()).flatten().min().copied()
    }

    /// Whether somebody must look from time to time.
    pub fn must_look(&self) -> bool {
        !self.0.is_empty()
    }
}

impl Hold {
    fn begin(
        subject: Subject,
        tool: Tool,
        patience: &mut Patience<'_>,
        turn: &mut dyn FnMut(),
    ) -> Result<Self, Trouble> {
        let (holders, caught) = (stopped_by(tool), false);
        let before = was_stopped(&subject);
        if let Some(freezer) = Freezer::of(&subject).filter(|_| !before)
            && freezer.freeze(&subject, patience)
        {
            return Ok(Self { means: Means::Freezer(freezer), holders, caught, before, subject });
        }
        let sent = subject.held.signal(STOP);
        sent.map_err(|error| Trouble::of("stopping the process", &error))?;
        let hold = Self { means: Means::Signal, holders, caught, before, subject };
        if let Err(trouble) = hold.wait(patience, turn) {
            let _gone = hold.end();
            return Err(trouble);
        }
        Ok(hold)
    }

    /// Until every thread stands still.
    fn wait(&self, patience: &mut Patience<'_>, turn: &mut dyn FnMut()) -> Result<(), Trouble> {
        while !is_still(&self.subject) {
            if self.subject.held.has_ended() {
                return Err(Trouble::Gone);
            }
            patience.wait("stopping all its threads")?;
            turn();
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Trouble> {
        match &self.means {
            Means::Freezer(freezer) if self.caught => {
                freezer.thaw().and_then(|()| self.subject.go_on())
            }
            Means::Freezer(freezer) => freezer.thaw(),
            Means::Signal if self.before => Ok(()),
            Means::Signal => self.subject.go_on(),
        }
    }

    /// A frozen thread cannot be stepped: a signal holds the process from here on.
    fn soften(&mut self) -> Result<(), Trouble> {
        if let Means::Freezer(freezer) = &self.means {
            // It comes to the signal before it comes to its own instructions.
            let sent = self.subject.held.signal(STOP);
            sent.map_err(|error| Trouble::of("stopping the process", &error))?;
            freezer.thaw()?;
            self.means = Means::Signal;
        }
        Ok(())
    }

    fn escaped(&self) -> bool {
        let runs = |state: char| matches!(state, 'R' | 'S' | 'D');
        // The first thread tells, as a signal continues all of them; if it has ended, any other.
        match (&self.means, self.subject.stat().map(|stat| stat.state)) {
            (Means::Signal, Ok('Z')) => {
                self.subject.threads().iter().any(|(_, stat)| runs(stat.state))
            }
            (Means::Signal, Ok(state)) => runs(state),
            _ => false,
        }
    }

    fn method(&self) -> Method {
        match &self.means {
            Means::Freezer(freezer) => Method::Freezer(freezer.folder().to_owned()),
            Means::Signal if self.before => Method::Already,
            Means::Signal => Method::Signal,
        }
    }
}

fn stopped_by(tool: Tool) -> BTreeMap<(Tool, Cause), Option<Instant>> {
    BTreeMap::from([((tool, Cause::Stop), None)])
}

/// Whether all threads are stopped, traced or at their end.
fn is_still(subject: &Subject) -> bool {
    stand(subject, &['T', 't', 'Z', 'X'])
}

/// Whether a signal has stopped it. A thread that is held for an event stands too, and goes on when
/// the event is over.
fn was_stopped(subject: &Subject) -> bool {
    stand(subject, &['T', 'Z', 'X'])
}

/// Whether all threads are in one of these states, see proc_pid_stat(5).
fn stand(subject: &Subject, states: &[char]) -> bool {
    let threads = subject.threads();
    !threads.is_empty() && threads.iter().all(|(_, stat)| states.contains(&stat.state))
}
