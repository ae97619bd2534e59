//! Rules as user space sees them: lists of acts, where they run, what they counted and told.
//!
//! In: lists. Out: sums, histograms, records and tallies. [`Rules`] is what the kernel does
//! (`backend/ebpf/rule`) and what a script does for tests ([`scripted`]). Nothing here knows how a
//! request is written, or what its list is for.

pub mod act;
pub mod held;
pub mod scripted;
pub mod told;

use super::Error;
use act::{
    Act, Cell, CellKind, HistogramId, LevelId, Move, Set, SpreadId, Timer, TraceId, UserEvent,
    Whose,
};
use held::{Area, Spread, Traced};
use monitor_model::histogram::Histogram;
use monitor_model::id::Pid;
use monitor_model::whose::Eyes;
use std::path::PathBuf;
use told::{Tally, Told};

/// A place in a file: what a probe is set on. Whether it may be is decided before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// The file; `/proc/self/fd/N` for one that is held open.
    pub path: PathBuf,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// What a list runs at, and what its arguments are there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// An instruction; the arguments of a call, if it is the first of a function.
    Entry(Site),
    /// The return of a function that begins there; its result.
    Return(Site),
    /// A process was made: parent, child, its thread, start of the parent. Its list is for either.
    Fork,
    /// A program was executed: pid.
    Exec,
    /// The last thread of a process ends: pid, code of wait(2).
    Exit,
    /// A signal was made: target, number, sender, `TRACE_SIGNAL_*`.
    SignalGenerate,
    /// A signal was taken: pid, number.
    SignalDeliver,
    /// A CPU goes to another thread: old pid, new pid, old thread, new thread, whether the old one
    /// was preempted, its state, start of the new process. The thread is the old one, and the list
    /// is for either process.
    Switch,
    /// A thread is made runnable: pid, thread.
    Wakeup,
    /// A user event was raised by another list: its parameters.
    Raised(UserEvent),
}

/// What to do at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// Where.
    pub place: Place,
    /// For which processes; everybody, if there is no set.
    pub set: Option<Set>,
    /// Runs in a second at which it switches itself off.
    pub limit: Option<u32>,
    /// What it is switched by together with others; by itself, if absent.
    pub switch: Option<ListId>,
    /// Only in processes that these may look into, whoever is in the set; if absent, in all.
    pub eyes: Option<Eyes>,
    /// What, in order; at most [`act::MAX_ACTS`].
    pub acts: Vec<Act>,
}

impl List {
    /// Without a limit, and switched by itself.
    pub const fn new(place: Place, set: Option<Set>, acts: Vec<Act>) -> Self {
        Self { place, set, limit: None, switch: None, eyes: None, acts }
    }
}

/// A list that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListId(pub u32);

/// What runs lists.
pub trait Rules: Send {
    /// A new cell, at its beginning.
    fn make_cell(&mut self, kind: CellKind) -> Result<Cell, Error>;
    /// A new histogram without values.
    fn make_histogram(&mut self) -> Result<HistogramId, Error>;
    /// A new level that is this.
    fn make_level(&mut self, first: i64) -> Result<LevelId, Error>;
    /// A new spread without numbers.
    fn make_spread(&mut self) -> Result<SpreadId, Error>;
    /// A new trace without records.
    fn make_trace(&mut self) -> Result<TraceId, Error>;
    /// A new timer that does not run.
    fn make_timer(&mut self, whose: Whose) -> Result<Timer, Error>;
    /// A new set without processes.
    fn make_set(&mut self, children: Children) -> Result<Set, Error>;
    /// A new user event without lists.
    fn make_event(&mut self) -> Result<UserEvent, Error>;
    /// Lets go of one of these; no list may name it any more.
    fn free(&mut self, what: Part);

    /// Puts a process into a set; one that has ended is not put, which is no error.
    fn include(&mut self, set: Set, process: Pid) -> Result<(), Error>;
    /// Takes a process out of a set.
    fn exclude(&mut self, set: Set, process: Pid);

    /// A switch for several lists, off. It is switched and removed as a list is.
    fn make_switch(&mut self) -> Result<ListId, Error>;
    /// A list; disabled, unless another's switch is on.
    fn add(&mut self, list: &List) -> Result<ListId, Error>;
    /// Other acts for a list, all at once: a run does the old ones or the new ones.
    fn replace(&mut self, id: ListId, acts: &[Act]) -> Result<(), Error>;
    /// Lets it run.
    fn enable(&mut self, id: ListId);
    /// Lets it not run; runs that have begun come to their end.
    fn disable(&mut self, id: ListId);
    /// Whether it may run: lists switch each other off, and a storm does.
    fn is_enabled(&self, id: ListId) -> bool;
    /// Takes it away, with its probe. None of its runs is left when this returns.
    fn remove(&mut self, id: ListId);

    /// What a cell holds: nothing, for an extreme of no values.
    fn cell(&self, cell: Cell) -> Option<i64>;
    /// What a histogram holds.
    fn histogram(&self, id: HistogramId) -> Histogram;
    /// Changes a level at once for all lists; its area is theirs alone. What it was before.
    fn move_level(&mut self, id: LevelId, how: Move) -> i64;
    /// What lists have done to a level.
    fn area(&self, id: LevelId) -> Area;
    /// What a spread holds.
    fn spread(&self, id: SpreadId) -> Spread;
    /// What was recorded after the first so many records.
    fn traced(&self, id: TraceId, after: u64) -> Traced;
    /// What became of a list's runs.
    fn tally(&self, id: ListId) -> Tally;
    /// Who reads what lists tell; there is one.
    fn take_reader(&mut self) -> Option<Box<dyn Reader>>;
}

/// Reads what lists tell; may do so on a thread of its own.
pub trait Reader: Send {
    /// Becomes readable when something was told that should not wait; none, where nothing does.
    fn wake(&self) -> Option<std::os::fd::BorrowedFd<'_>>;
    /// Hands over what is there, in the order in which it was told, at most so many.
    fn read(&mut self, most: usize, take: &mut dyn FnMut(Told)) -> usize;
}

/// Whether the children of a set's processes are born into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Children {
    /// They are.
    Included,
    /// They are not.
    NotIncluded,
}

/// Something that lists name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// See [`Rules::make_cell`].
    Cell(Cell),
    /// See [`Rules::make_histogram`].
    Histogram(HistogramId),
    /// See [`Rules::make_level`].
    Level(LevelId),
    /// See [`Rules::make_spread`].
    Spread(SpreadId),
    /// See [`Rules::make_trace`].
    Trace(TraceId),
    /// See [`Rules::make_timer`].
    Timer(Timer),
    /// See [`Rules::make_set`].
    Set(Set),
    /// See [`Rules::make_event`].
    Event(UserEvent),
}
