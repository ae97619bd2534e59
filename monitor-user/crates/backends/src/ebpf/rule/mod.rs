//! Rules in the kernel: the object of `bin/rule`, its lists, and what they counted.
//!
//! In: lists. Out: probes and tracepoints that run them, and the numbers that they change. What is
//! attached goes when its last list does, or with this. Nobody's request is known here.

mod code;
mod counted;
mod hooks;
mod map;
mod mapped;
mod member;
mod places;
mod ring;
pub mod trial;

use super::kernel::Kernel;
use super::object::{Object, Settings};
use code::Terms;
use hooks::{Hooks, Link};
use mapped::Mapped;
use monitor_backend::Error;
use monitor_backend::rule::act::{
    Act, Cell, CellKind, HistogramId, LevelId, Move, Set, SpreadId, Timer, TraceId, UserEvent,
    Whose,
};
use monitor_backend::rule::held::{Area, Spread, Traced};
use monitor_backend::rule::told::Tally;
use monitor_backend::rule::{Children, List, ListId, Part, Place, Reader, Rules};
use monitor_ebpf::abi::rule::{
    self as abi, MAX_CELLS, MAX_HISTOGRAMS, MAX_LEVELS, MAX_LISTS, MAX_SETS, MAX_SPREADS,
    MAX_TIMERS, MAX_TRACES, hook, spread,
};
use monitor_model::histogram::Histogram;
use monitor_model::id::Pid;
use monitor_sys::barrier;
use places::Places;
use ring::Ring;
use std::collections::BTreeMap;

/// Times the ring of other objects: a rule may tell of each call of a function.
const RING_FACTOR: u32 = 4;

/// The loaded object and who uses what of it.
pub struct KernelRules {
    object: Object,
    mapped: Mapped,
    hooks: Hooks,
    lists: BTreeMap<ListId, Listed>,
    free: Free,
    reader: Option<Ring>,
    n_timers: u32,
    /// Sets that children are born into, as bits.
    inherited: u64,
}

/// A list that is there.
struct Listed {
    link: Link,
    terms: Terms,
    version: u32,
    /// Whether the other version has ever been run, and may be still.
    was_replaced: bool,
}

/// Numbers that nobody has.
struct Free {
    lists: Places,
    cells: Places,
    histograms: Places,
    levels: Places,
    spreads: Places,
    traces: Places,
    timers: Places,
    sets: Places,
    events: Places,
}

impl KernelRules {
    /// Loads the object; nothing is attached yet.
    pub fn open() -> Result<Self, Error> {
        monitor_sys::memory::lift_lock_limit();
        let kernel = Kernel::read(0)?;
        let ring_bytes = kernel.machine.ring_bytes() * RING_FACTOR;
        let sizes = [(abi::RING, ring_bytes), (abi::MEMBERS, kernel.machine.rows())];
        let mut object =
            Object::load("rule", &kernel, &Settings { constants: &[], sizes: &sizes })?;
        drop(kernel);
        monitor_sys::memory::give_back();
        let reader = Some(Ring(object.ring(abi::RING)?));
        let timers = u32::try_from(MAX_TIMERS).unwrap_or(0);
        let free = Free {
            lists: Places::new("lists", MAX_LISTS),
            cells: Places::new("cells", MAX_CELLS),
            histograms: Places::new("histograms", MAX_HISTOGRAMS),
            levels: Places::new("levels", MAX_LEVELS),
            spreads: Places::new("spreads", MAX_SPREADS),
            traces: Places::new("traces", MAX_TRACES),
            timers: Places::new("timers", timers),
            sets: Places::new("sets", MAX_SETS),
            events: Places::new("user events", hook::MAX_USER),
        };
        Ok(Self {
            mapped: Mapped::of(&object)?,
            object,
            hooks: Hooks::default(),
            lists: BTreeMap::new(),
            free,
            reader,
            n_timers: 0,
            inherited: 0,
        })
    }

    fn write(&mut self, id: ListId, version: u32, list: &abi::List) -> Result<(), Error> {
        map::set(&mut self.object, abi::LISTS, 2 * id.0 + version, list)?;
        map::set(&mut self.object, abi::VERSIONS, id.0, &version)
    }

    /// The list as a number, written and switched off, with an empty tally.
    fn prepare(&mut self, id: ListId, list: &abi::List) -> Result<(), Error> {
        map::set(&mut self.object, abi::ENABLED, id.0, &0u32)?;
        map::set(&mut self.object, abi::BURSTS, id.0, &abi::Burst::default())?;
        map::set_all(&mut self.object, abi::TALLIES, id.0, abi::Tally::default())?;
        self.write(id, 0, list)
    }

    fn switch(&mut self, id: ListId, enabled: u32) {
        if self.lists.contains_key(&id)
            && let Err(error) = map::set(&mut self.object, abi::ENABLED, id.0, &enabled)
        {
            tracing::warn!(list = id.0, %error, "a rule could not be switched");
        }
    }
}

impl Rules for KernelRules {
    fn make_cell(&mut self, kind: CellKind) -> Result<Cell, Error> {
        let index = self.free.cells.take()?;
        counted::reset_cell(&mut self.object, Cell { index, kind })?;
        Ok(Cell { index, kind })
    }

    fn make_histogram(&mut self) -> Result<HistogramId, Error> {
        let id = HistogramId(self.free.histograms.take()?);
        counted::reset_histogram(&mut self.object, id)?;
        Ok(id)
    }

    fn make_level(&mut self, first: i64) -> Result<LevelId, Error> {
        let id = LevelId(self.free.levels.take()?);
        self.mapped.begin_level(&mut self.object, id, first)?;
        Ok(id)
    }

    fn make_spread(&mut self) -> Result<SpreadId, Error> {
        let cells = self.free.cells.take_row(spread::CELLS)?;
        let index = self.free.spreads.take();
        let index = index.inspect_err(|_| self.free.cells.give_back_row(cells, spread::CELLS))?;
        let id = SpreadId { index, cells };
        self.mapped.begin_spread(&mut self.object, id)?;
        Ok(id)
    }

    fn make_trace(&mut self) -> Result<TraceId, Error> {
        let id = TraceId(self.free.traces.take()?);
        self.mapped.begin_trace(id);
        Ok(id)
    }

    fn make_timer(&mut self, whose: Whose) -> Result<Timer, Error> {
        let index = self.free.timers.take()?;
        self.n_timers += 1;
        Ok(Timer { index, generation: self.n_timers, whose })
    }

    fn make_set(&mut self, children: Children) -> Result<Set, Error> {
        let set = Set(self.free.sets.take()? + 1);
        if children == Children::Included {
            self.inherited |= member::bit(set);
            map::set(&mut self.object, abi::INHERITED, 0, &self.inherited)?;
        }
        self.hooks.n_sets += 1;
        self.hooks.settle(&mut self.object)?;
        Ok(set)
    }

    fn make_event(&mut self) -> Result<UserEvent, Error> {
        self.free.events.take().map(UserEvent)
    }

    fn free(&mut self, what: Part) {
        match what {
            Part::Cell(cell) => self.free.cells.give_back(cell.index),
            Part::Level(id) => self.free.levels.give_back(id.0),
            Part::Spread(SpreadId { index, cells }) => {
                self.free.spreads.give_back(index);
                self.free.cells.give_back_row(cells, spread::CELLS);
            }
            Part::Trace(id) => self.free.traces.give_back(id.0),
            Part::Histogram(id) => self.free.histograms.give_back(id.0),
            Part::Timer(timer) => self.free.timers.give_back(timer.index),
            Part::Set(set) => self.free_set(set),
            Part::Event(event) => self.free.events.give_back(event.0),
        }
    }

    fn include(&mut self, set: Set, process: Pid) -> Result<(), Error> {
        member::include(&mut self.object, set, process)
    }

    fn exclude(&mut self, set: Set, process: Pid) {
        member::exclude(&mut self.object, set, process);
    }

    fn make_switch(&mut self) -> Result<ListId, Error> {
        let id = ListId(self.free.lists.take()?);
        let terms = Terms { set: 0, limit: 0, switch: id.0, eyes: None };
        let nothing = code::list(&[], terms)?;
        self.prepare(id, &nothing).inspect_err(|_| self.free.lists.give_back(id.0))?;
        let link = Link::Nowhere;
        let _ = self.lists.insert(id, Listed { link, terms, version: 0, was_replaced: false });
        Ok(id)
    }

    fn add(&mut self, list: &List) -> Result<ListId, Error> {
        let (set, limit) = (list.set.map_or(0, |set| set.0), list.limit.unwrap_or(0));
        let id = ListId(self.free.lists.take()?);
        let terms = Terms { set, limit, switch: list.switch.unwrap_or(id).0, eyes: list.eyes };
        let coded = code::list(&list.acts, terms);
        let coded = coded.inspect_err(|_| self.free.lists.give_back(id.0))?;
        let link = self.prepare(id, &coded).and_then(|()| self.link(&list.place, id));
        let link = link.inspect_err(|_| self.free.lists.give_back(id.0))?;
        let _ = self.lists.insert(id, Listed { link, terms, version: 0, was_replaced: false });
        Ok(id)
    }

    fn replace(&mut self, id: ListId, acts: &[Act]) -> Result<(), Error> {
        let Some(&Listed { terms, version, was_replaced, .. }) = self.lists.get(&id) else {
            return Err(code::unsupported("there is no such list".into(), "add it"));
        };
        let coded = code::list(acts, terms)?;
        if was_replaced {
            // A run that was begun before the last time may still read what is written now.
            barrier::settle().map_err(|source| Error::Kernel {
                call: "membarrier",
                what: "runs of a rule".into(),
                source,
            })?;
        }
        self.write(id, 1 - version, &coded)?;
        if let Some(listed) = self.lists.get_mut(&id) {
            (listed.version, listed.was_replaced) = (1 - version, true);
        }
        Ok(())
    }

    fn enable(&mut self, id: ListId) {
        self.switch(id, 1);
    }

    fn disable(&mut self, id: ListId) {
        self.switch(id, 0);
    }

    fn is_enabled(&self, id: ListId) -> bool {
        self.lists.contains_key(&id) && map::get(&self.object, abi::ENABLED, id.0) == Some(1u32)
    }

    fn remove(&mut self, id: ListId) {
        self.switch(id, 0);
        let Some(listed) = self.lists.remove(&id) else { return };
        self.hooks.unlink(&mut self.object, listed.link, id);
        // Where nobody can be waited for, the number stays used.
        if barrier::settle().is_ok() {
            self.free.lists.give_back(id.0);
        }
    }

    fn cell(&self, cell: Cell) -> Option<i64> {
        counted::cell(&self.object, cell)
    }

    fn histogram(&self, id: HistogramId) -> Histogram {
        counted::histogram(&self.object, id)
    }

    fn move_level(&mut self, id: LevelId, how: Move) -> i64 {
        self.mapped.move_level(id, how)
    }

    fn area(&self, id: LevelId) -> Area {
        self.mapped.area(&self.object, id)
    }

    fn spread(&self, id: SpreadId) -> Spread {
        self.mapped.spread(&self.object, id)
    }

    fn traced(&self, id: TraceId, after: u64) -> Traced {
        self.mapped.traced(id, after)
    }

    fn tally(&self, id: ListId) -> Tally {
        counted::tally(&self.object, id)
    }

    fn take_reader(&mut self) -> Option<Box<dyn Reader>> {
        Some(Box::new(self.reader.take()?))
    }
}

impl KernelRules {
    fn link(&mut self, place: &Place, id: ListId) -> Result<Link, Error> {
        self.hooks.link(&mut self.object, place, id)
    }

    fn free_set(&mut self, set: Set) {
        member::clear(&mut self.object, set);
        self.inherited &= !member::bit(set);
        let _ = map::set(&mut self.object, abi::INHERITED, 0, &self.inherited);
        self.free.sets.give_back(set.0 - 1);
        self.hooks.n_sets -= 1;
        // Only lets go of hooks here, which cannot be refused.
        let _ = self.hooks.settle(&mut self.object);
    }
}
