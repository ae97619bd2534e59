//! A process of which we trace threads: which, and why still.
//!
//! In: what is wanted of its threads. Out: them, seized, stopped, held or let go. It is traced no
//! longer than there is a reason: a breakpoint, a watch, a holder, an errand.

use super::super::act::{Happened, Mark, Tool, What};
use super::super::holder::{Cause, HELD_AT_MOST};
use super::super::patience::Patience;
use super::super::subject::{Subject, thread_identity};
use super::super::trouble::Trouble;
use super::breakpoint::Breakpoints;
use super::tracee::{Kin, Stands, Tracee};
use monitor_event::thread::Target;
use monitor_sys::trace;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long after a watch a signal of a kernel program may still come, which is not for the thread.
const AFTER_WATCH: Duration = Duration::from_millis(2500);

/// A traced process.
pub struct Traced {
    /// The process.
    pub subject: Subject,
    /// Its threads, as far as they are traced.
    pub threads: BTreeMap<i32, Tracee>,
    /// Where its threads are to stop.
    pub breakpoints: Breakpoints,
    /// Who waits for kernel programs to stop its threads.
    pub watches: BTreeSet<(Tool, Mark)>,
    /// Until when they may have done so, now that nobody waits.
    watched_until: Option<Instant>,
    /// Threads that stand while another steps over a breakpoint.
    pub quiet: Vec<i32>,
    /// What has happened and was not told yet.
    pub told: Vec<Happened>,
}

impl Traced {
    /// Nothing of it is traced yet.
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            threads: BTreeMap::new(),
            breakpoints: Breakpoints::default(),
            watches: BTreeSet::new(),
            watched_until: None,
            quiet: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Whether all threads are traced, to whatever they come.
    pub fn is_kept(&self) -> bool {
        !self.breakpoints.all.is_empty() || !self.watches.is_empty()
    }

    /// Takes watches away.
    pub fn unwatch(&mut self, whose: impl Fn(&(Tool, Mark)) -> bool) -> bool {
        let before = self.watches.len();
        self.watches.retain(|who| !whose(who));
        let found = self.watches.len() < before;
        if found && self.watches.is_empty() {
            self.watched_until = Some(Instant::now() + AFTER_WATCH);
        }
        found
    }

    /// Whether kernel programs may stop its threads.
    pub fn is_watched(&self) -> bool {
        let until = self.watched_until;
        !self.watches.is_empty() || until.is_some_and(|until| Instant::now() < until)
    }

    /// Traces a thread, without stopping it.
    pub fn seize(&mut self, tid: i32) -> Result<(), Trouble> {
        if !self.threads.contains_key(&tid) {
            trace::seize(tid).map_err(|error| self.subject.untraceable(tid, &error))?;
            let _none = self.threads.insert(tid, Tracee::new(tid, Kin::Thread));
        }
        Ok(())
    }

    /// Traces every thread; those that are born to a traced one are, too.
    pub fn seize_all(&mut self) -> Result<(), Trouble> {
        loop {
            let threads = self.subject.threads().into_iter();
            let new: Vec<i32> = threads
                .filter(|(tid, stat)| stat.state != 'Z' && !self.threads.contains_key(tid))
                .map(|(tid, _)| tid)
                .collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                match self.seize(tid) {
                    Ok(()) | Err(Trouble::Gone) => {} // That thread has ended.
                    Err(other) => return Err(other),
                }
            }
        }
        if self.threads.is_empty() { Err(Trouble::Gone) } else { Ok(()) }
    }

    /// Waits until a thread stands where we can look at it, and leaves it there.
    pub fn halt(&mut self, tid: i32, patience: &mut Patience<'_>) -> Result<(), Trouble> {
        self.seize(tid)?;
        loop {
            let thread = self.threads.get_mut(&tid).ok_or(Trouble::Gone)?;
            thread.asked = true;
            if thread.stands == Stands::Stopped {
                return Ok(());
            }
            thread.interrupt();
            self.collect();
            let stopped = |it: &Tracee| it.stands == Stands::Stopped;
            if self.threads.get(&tid).is_some_and(|it| !stopped(it))
                && let Err(trouble) = patience.wait("stopping the thread")
            {
                let thread = self.threads.get_mut(&tid);
                thread.into_iter().for_each(|it| it.asked = false);
                return Err(trouble);
            }
        }
    }

    /// Nobody looks at the thread any more.
    pub fn looked(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.asked = false;
            self.settle(tid);
        }
    }

    /// Takes in what has become of all threads.
    pub fn collect(&mut self) {
        loop {
            let mut any = false;
            for tid in self.threads.keys().copied().collect::<Vec<_>>() {
                match trace::status(tid) {
                    Ok(Some(status)) => {
                        any = true;
                        self.arrived(tid, status);
                    }
                    Ok(None) => {}
                    // It is nobody of ours any more.
                    Err(_) => _ = self.threads.remove(&tid),
                }
            }
            if !any {
                break;
            }
        }
    }

    /// Holds a thread that stands stopped, because of what happened to it.
    pub fn hold_for(&mut self, tid: i32, who: (Tool, Mark), what: What) {
        self.tell(tid, Some(who), what);
        if let Some(thread) = self.threads.get_mut(&tid) {
            let until = Some(Instant::now() + HELD_AT_MOST);
            if let Some(errand) = &mut thread.errand {
                let _waited = errand.despite.remove(&(who.0, Cause::Event(who.1)));
            }
            let _before = thread.holders.insert((who.0, Cause::Event(who.1)), until);
        }
    }

    /// Tells what happened to a thread.
    pub fn tell(&mut self, tid: i32, wanted: Option<(Tool, Mark)>, what: What) {
        let thread = thread_identity(self.subject.pid(), tid);
        let target = Target { process: self.subject.id, thread };
        self.told.push(Happened { target, wanted, what });
    }

    /// Lets go of a thread that a tool holds for this cause.
    pub fn let_go(&mut self, tid: i32, holder: (Tool, Cause)) -> Result<(), Trouble> {
        let thread = self.threads.get_mut(&tid);
        let released = thread.and_then(|it| it.holders.remove(&holder));
        let why = || Trouble::state("this tool does not hold the thread for that");
        let _until = released.ok_or_else(why)?;
        self.settle(tid);
        Ok(())
    }

    /// Threads that are traced for no reason are let go: those that run must stop for it once.
    pub fn shed(&mut self) {
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.settle(tid);
        }
        if self.is_kept() {
            return;
        }
        let idle = |it: &&mut Tracee| it.errand.is_none() && it.over.is_none();
        for thread in self.threads.values_mut().filter(idle) {
            thread.interrupt();
        }
    }

    /// What a tool wanted here, it wants no more.
    pub fn forget(&mut self, tool: Tool) {
        let _ended = self.breakpoints.unset(&self.subject, |who| who.0 == tool);
        let _found = self.unwatch(|who| who.0 == tool);
        for thread in self.threads.values_mut() {
            thread.holders.retain(|(holder, _), _| *holder != tool);
        }
        let sent = |it: &Tracee| it.errand.as_ref().is_some_and(|it| it.tool == tool);
        let out = self.threads.values().filter(|it| sent(it)).map(|it| it.tid);
        for tid in out.collect::<Vec<_>>() {
            self.recall(tid);
        }
        self.shed();
    }

    /// What is past its time: holds, calls, steps that block.
    pub fn expire(&mut self, now: Instant) {
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.expire_holds(tid, now);
            self.expire_call(tid, now);
            self.expire_over(tid, now);
        }
    }

    fn expire_holds(&mut self, tid: i32, now: Instant) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let late = |until: &Option<Instant>| until.is_some_and(|until| until <= now);
        let overdue: Vec<_> =
            thread.holders.iter().filter(|(_, until)| late(until)).map(|(who, _)| *who).collect();
        for (tool, cause) in overdue {
            if let Some(thread) = self.threads.get_mut(&tid) {
                let _held = thread.holders.remove(&(tool, cause));
            }
            if let Cause::Event(mark) = cause {
                self.tell(tid, Some((tool, mark)), What::Overdue(HELD_AT_MOST));
            }
            self.settle(tid);
        }
    }

    /// When it must be looked at, even if nothing happens.
    pub fn next(&self) -> Option<Instant> {
        self.threads.values().filter_map(|thread| self.next_of(thread)).min()
    }
}
