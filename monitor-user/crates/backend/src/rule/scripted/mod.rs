//! Rules without a kernel, for tests of what uses them: a script says what happens.
//!
//! In: lists, and [`Happened`]. Out: what the kernel's interpreter would count and tell, with the
//! same arithmetic; the time and the memory are the script's. No limits but those of a list.

mod run;
#[cfg(test)]
mod tests;

use super::act::{
    Act, Cell, CellKind, HistogramId, LevelId, MAX_ACTS, MAX_VALUES, Move, Receiver, Set, SpreadId,
    Timer, TraceId, UserEvent, Whose,
};
use super::held::{Area, Record, Spread, Traced};
use super::told::{Tally, Told};
use super::{Children, List, ListId, Part, Place, Reader, Rules};
use crate::Error;
use monitor_model::histogram::Histogram;
use monitor_model::id::{Ns, Pid};
use monitor_model::whose::Eyes;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Something that happens.
#[derive(Clone, Debug)]
pub struct Happened {
    /// Where.
    pub place: Place,
    /// To whom.
    pub pid: Pid,
    /// To which thread.
    pub tid: Pid,
    /// Who may look into the process, besides root.
    pub eyes: Option<Eyes>,
    /// What its lists can ask for.
    pub arguments: [u64; 6],
}

/// Lists and what they counted.
#[derive(Default)]
pub struct Scripted {
    /// What the clock says.
    pub now: Ns,
    /// What stands in memory, by address: of everybody.
    pub memory: HashMap<u64, u64>,
    /// Texts in memory.
    pub texts: HashMap<u64, Vec<u8>>,
    /// Signals that lists sent: to whom, which, and whether to the thread alone.
    pub signals: Vec<(Pid, u32, Receiver)>,
    lists: BTreeMap<ListId, Listed>,
    switches: HashMap<ListId, bool>,
    cells: HashMap<u32, i64>,
    levels: HashMap<u32, Area>,
    spreads: HashMap<u32, Spread>,
    traces: HashMap<u32, Vec<Record>>,
    histograms: HashMap<u32, Histogram>,
    calls: HashMap<(u32, Pid), Vec<Begun>>,
    sets: HashMap<u32, BTreeSet<Pid>>,
    inherited: BTreeSet<u32>,
    told: Arc<Mutex<VecDeque<Told>>>,
    made: u32,
}

/// A call that has not returned: when it began, and what was saved of it.
type Begun = (Ns, [u64; 3]);

struct Listed {
    list: List,
    tally: Tally,
}

impl Scripted {
    /// A number that nothing else has.
    fn next(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    fn change(&mut self, cell: Cell, how: impl FnOnce(Option<i64>) -> i64) {
        let after = how(self.cells.get(&cell.index).copied());
        let _before = self.cells.insert(cell.index, after);
    }

    /// What a list does to a level; what it is then.
    fn change_level(&mut self, id: LevelId, how: Move) -> i64 {
        let now = self.now;
        let before = self.move_level(id, how);
        let area = self.levels.entry(id.0).or_default();
        let change = area.level - before;
        area.count += 1;
        area.changed += change;
        area.moments += i128::from(change) * i128::from(now.0);
        area.level
    }

    fn note(&mut self, id: SpreadId, value: i64) {
        let spread = self.spreads.entry(id.index).or_default();
        let Ok(number) = u64::try_from(value) else {
            spread.n_refused += 1;
            return;
        };
        spread.sum += value;
        spread.least = Some(spread.least.map_or(value, |least| least.min(value)));
        spread.most = spread.most.max(Some(value));
        match spread.sizes.iter_mut().find(|(size, _)| *size == number) {
            Some((_, count)) => *count += 1,
            None => spread.sizes.push((number, 1)),
        }
        spread.sizes.sort_unstable();
    }
}

fn checked(acts: &[Act]) -> Result<(), Error> {
    if acts.len() <= MAX_ACTS {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "a rule in the kernel".into(),
        why: format!("it has {} acts, and the kernel runs {MAX_ACTS}", acts.len()),
        fix: "two lists on the same place do it".into(),
    })
}

impl Rules for Scripted {
    fn make_cell(&mut self, kind: CellKind) -> Result<Cell, Error> {
        Ok(Cell { index: self.next(), kind })
    }

    fn make_histogram(&mut self) -> Result<HistogramId, Error> {
        Ok(HistogramId(self.next()))
    }

    fn make_level(&mut self, first: i64) -> Result<LevelId, Error> {
        let id = LevelId(self.next());
        let _none = self.levels.insert(id.0, Area { level: first, ..Area::default() });
        Ok(id)
    }

    fn make_spread(&mut self) -> Result<SpreadId, Error> {
        Ok(SpreadId { index: self.next(), cells: 0 })
    }

    fn make_trace(&mut self) -> Result<TraceId, Error> {
        Ok(TraceId(self.next()))
    }

    fn make_timer(&mut self, whose: Whose) -> Result<Timer, Error> {
        Ok(Timer { index: self.next(), generation: 1, whose })
    }

    fn make_set(&mut self, children: Children) -> Result<Set, Error> {
        let set = Set(self.next());
        if children == Children::Included {
            let _ = self.inherited.insert(set.0);
        }
        Ok(set)
    }

    fn make_event(&mut self) -> Result<UserEvent, Error> {
        Ok(UserEvent(self.next()))
    }

    fn free(&mut self, what: Part) {
        match what {
            Part::Cell(cell) => drop(self.cells.remove(&cell.index)),
            Part::Histogram(id) => drop(self.histograms.remove(&id.0)),
            Part::Level(id) => drop(self.levels.remove(&id.0)),
            Part::Spread(id) => drop(self.spreads.remove(&id.index)),
            Part::Trace(id) => drop(self.traces.remove(&id.0)),
            Part::Timer(timer) => self.calls.retain(|(index, _), _| *index != timer.index),
            Part::Set(set) => drop(self.sets.remove(&set.0)),
            Part::Event(_) => {}
        }
    }

    fn include(&mut self, set: Set, process: Pid) -> Result<(), Error> {
        let _ = self.sets.entry(set.0).or_default().insert(process);
        Ok(())
    }

    fn exclude(&mut self, set: Set, process: Pid) {
        let _ = self.sets.entry(set.0).or_default().remove(&process);
    }

    fn make_switch(&mut self) -> Result<ListId, Error> {
        let id = ListId(self.next());
        let _ = self.switches.insert(id, false);
        Ok(id)
    }

    fn add(&mut self, list: &List) -> Result<ListId, Error> {
        checked(&list.acts)?;
        let id = self.make_switch()?;
        let listed = Listed { list: list.clone(), tally: Tally::default() };
        let _ = self.lists.insert(id, listed);
        Ok(id)
    }

    fn replace(&mut self, id: ListId, acts: &[Act]) -> Result<(), Error> {
        checked(acts)?;
        if let Some(listed) = self.lists.get_mut(&id) {
            listed.list.acts = acts.to_vec();
        }
        Ok(())
    }

    fn enable(&mut self, id: ListId) {
        let _ = self.switches.get_mut(&id).map(|it| *it = true);
    }

    fn disable(&mut self, id: ListId) {
        let _ = self.switches.get_mut(&id).map(|it| *it = false);
    }

    fn is_enabled(&self, id: ListId) -> bool {
        self.switches.get(&id).is_some_and(|it| *it)
    }

    fn remove(&mut self, id: ListId) {
        let _ = self.lists.remove(&id);
        let _ = self.switches.remove(&id);
    }

    fn cell(&self, cell: Cell) -> Option<i64> {
        let held = self.cells.get(&cell.index).copied();
        match cell.kind {
            CellKind::Sum => Some(held.unwrap_or(0)),
            CellKind::Least | CellKind::Most => held,
        }
    }

    fn histogram(&self, id: HistogramId) -> Histogram {
        self.histograms.get(&id.0).cloned().unwrap_or_default()
    }

    fn move_level(&mut self, id: LevelId, how: Move) -> i64 {
        let area = self.levels.entry(id.0).or_default();
        let before = area.level;
        area.level = how.of(before);
        before
    }

    fn area(&self, id: LevelId) -> Area {
        self.levels.get(&id.0).copied().unwrap_or_default()
    }

    fn spread(&self, id: SpreadId) -> Spread {
        self.spreads.get(&id.index).cloned().unwrap_or_default()
    }

    fn traced(&self, id: TraceId, after: u64) -> Traced {
        let all = self.traces.get(&id.0).map_or(&[][..], Vec::as_slice);
        let new = usize::try_from(after).map_or(&[][..], |after| &all[after.min(all.len())..]);
        Traced { n_made: after + new.len() as u64, n_lost: 0, records: new.to_vec() }
    }

    fn tally(&self, id: ListId) -> Tally {
        self.lists.get(&id).map(|listed| listed.tally).unwrap_or_default()
    }

    fn take_reader(&mut self) -> Option<Box<dyn Reader>> {
        Some(Box::new(Heard(Arc::clone(&self.told))))
    }
}

/// Reads what was told.
struct Heard(Arc<Mutex<VecDeque<Told>>>);

impl Reader for Heard {
    fn wake(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn read(&mut self, most: usize, take: &mut dyn FnMut(Told)) -> usize {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n_read = most.min(told.len());
        told.drain(..n_read).for_each(take);
        n_read
    }
}

/// No values.
const NO_VALUES: [u64; MAX_VALUES] = [0; MAX_VALUES];
