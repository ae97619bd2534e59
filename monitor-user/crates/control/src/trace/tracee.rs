//! One thread that we trace: how it stands, who holds it, what it is on.
//!
//! In: requests to the kernel about this thread. Out: the same, with what must be remembered
//! between them. What a stop means and what comes next is decided in `stop` and `onward`.

use super::super::act::Tool;
use super::super::holder::Cause;
use super::super::machine::{self, Slots};
use super::super::trouble::Trouble;
use super::errand::Errand;
use monitor_sys::trace;
use monitor_sys::trace::Onward;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::Instant;

/// The one that kernel programs send to a thread that is traced; a socket sends it, too.
pub const URGENT: i32 = Signal::URG.as_raw();

/// How a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// On its own feet.
    Runs,
    /// Where we can look at it.
    Stopped,
    /// With its process, by somebody's `SIGSTOP`; it must be interrupted to be looked at.
    Listens,
}

/// What a new thread has to do with the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    /// It is one of its threads, or runs on its memory as a child of vfork(2) does.
    Thread,
    /// It is a child with a copy of the memory, bytes of ours included.
    Copy,
}

/// A thread that we trace.
#[derive(Debug)]
pub struct Tracee {
    /// Its number.
    pub tid: i32,
    /// How it stands.
    pub stands: Stands,
    /// What it is to the process.
    pub kin: Kin,
    /// The signal that it goes on with, or 0.
    pub signal: i32,
    /// Its process was stopped when we saw it last.
    pub in_group: bool,
    /// It stops here because its process is stopped.
    pub at_group_stop: bool,
    /// It was interrupted, and has not stopped for that yet.
    pub interrupted: bool,
    /// Somebody waits for its stop and looks at it next.
    pub asked: bool,
    /// Who holds it, and until when.
    pub holders: BTreeMap<(Tool, Cause), Option<Instant>>,
    /// What it is on.
    pub errand: Option<Errand>,
    /// The breakpoint whose byte is lifted while it makes one step, and since when.
    pub over: Option<(u64, Instant)>,
    /// The breakpoint and stack pointer that were told already.
    pub passed: Option<(u64, u64)>,
    /// A signal handler runs between that and the step over it.
    pub returns: bool,
    /// The signal of a kernel program that it stands for; it is not for the thread itself.
    pub caught: Option<i32>,
    /// Its call is past its time, and it was interrupted for that.
    pub late: bool,
    slots: Slots,
}

impl Tracee {
    /// One that has just been seized, or was born to one that is.
    pub fn new(tid: i32, kin: Kin) -> Self {
        Self {
            tid,
            kin,
            stands: Stands::Runs,
            signal: 0,
            in_group: false,
            at_group_stop: false,
            interrupted: false,
            asked: false,
            holders: BTreeMap::new(),
            errand: None,
            over: None,
            passed: None,
            returns: false,
            caught: None,
            late: false,
            slots: Slots::default(),
        }
    }

    /// Asks it to stop, once.
    pub fn interrupt(&mut self) {
        if self.stands != Stands::Stopped && !self.interrupted {
            // One that has ended meanwhile tells so by its status.
            self.interrupted = trace::interrupt(self.tid).is_ok();
        }
    }

    /// The signal of a kernel program is not for the thread, unless somebody says that it is one
    /// that only looks like it. That is told by each who was asked, and who met his event is right.
    pub fn heed(&mut self, delivers: bool) {
        match (delivers, self.caught) {
            (true, Some(signal)) => self.signal = signal,
            (false, Some(_)) => (self.signal, self.caught) = (0, Some(0)),
            _ => {}
        }
    }

    /// Lets it go on, with its signal.
    pub fn resume(&mut self, onward: Onward) {
        let signal = std::mem::take(&mut self.signal);
        if trace::resume(self.tid, onward, signal).is_ok() {
            let listens = onward == Onward::Listening;
            self.stands = if listens { Stands::Listens } else { Stands::Runs };
            self.at_group_stop = false;
            self.caught = None;
        }
    }

    /// Back to its stopped process: it stops again before an instruction of its own.
    pub fn rejoin(&mut self) {
        self.interrupted = trace::interrupt(self.tid).is_ok();
        self.resume(Onward::Freely);
    }

    /// Sets where it traps, if that changes.
    pub fn set_slots(&mut self, slots: Slots) -> Result<(), Trouble> {
        if self.slots != slots {
            machine::set_slots(self.tid, &slots)?;
            self.slots = slots;
        }
        Ok(())
    }

    /// Whether debug registers of ours are in it.
    pub fn has_slots(&self) -> bool {
        self.slots != Slots::default()
    }

    /// Leaves it as it was found; it stands stopped.
    pub fn detach(&mut self) {
        let _gone = self.set_slots(Slots::default());
        let _gone = trace::detach(self.tid, std::mem::take(&mut self.signal));
    }

    /// Whether anybody holds it, but those for whom it is out.
    pub fn is_held(&self) -> bool {
        let waits = |holder| self.errand.as_ref().is_some_and(|it| it.despite.contains(holder));
        self.holders.keys().any(|holder| !waits(holder))
    }

    /// Whether a tool other than this holds it.
    pub fn is_held_by_another(&self, tool: Tool) -> bool {
        self.holders.keys().any(|(holder, _)| *holder != tool)
    }
}
