//! Calls of library functions as they happen: where their lists are, and what these tell.
//!
//! ```text
//!  a name, processes -> find -> sites -> plan -> lists of the kernel
//!                       records of these lists -> heard: who called what, with which values
//! ```
//!
//! In: names of functions and the processes that matter. Out: calls. A tap is set in every file in
//! which one of the processes has the function; processes that execute something else, or load a
//! library, are looked at again when that is asked for.

mod errno;
pub mod heard;
pub mod newcomer;
pub mod plan;

use super::description::Descriptions;
use super::description::call::{Call, Kind};
use super::elf::Image;
use super::error::Error;
use super::site::{self, Site};
use super::{find, wanted::Wanted};
use crate::backend;
use crate::backend::rule::act::{Act, Cell, CellKind, HistogramId, Receiver, Set, Timer, Whose};
use crate::backend::rule::told::{Tally, Told as Record, Why};
use crate::backend::rule::{self as rule, Children, List, ListId, Part, Place, Reader, Rules};
use crate::model::histogram::Histogram;
use crate::model::id::{Ns, Pid};
use heard::Heard;
use newcomer::Newcomers;
use plan::{Edge, Means, Plan};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Calls of one function in a second, beyond which its tap is switched off by the kernel.
const MOST_CALLS: u32 = 1_000_000;

/// Why a tap cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such function, or no safe place.
    #[error(transparent)]
    Place(#[from] Error),
    /// The kernel runs no such list.
    #[error(transparent)]
    Kernel(#[from] backend::Error),
}

/// Which tap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tap {
    /// The function, as it was asked for.
    pub name: String,
    /// Which end of its calls.
    pub edge: Edge,
}

/// A call that began or returned.
#[derive(Clone, Debug)]
pub struct Called {
    /// By which tap it was seen.
    pub tap: Arc<Tap>,
    /// The process.
    pub pid: Pid,
    /// Its thread.
    pub tid: Pid,
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The probed instruction; of a return, where it returns to.
    pub pc: u64,
    /// What the values are.
    pub plan: Arc<Plan>,
    /// The values.
    pub values: Vec<Heard>,
}

/// What a record says.
#[derive(Clone, Debug)]
pub enum News {
    /// A call.
    Called(Called),
    /// A function is called too often: its tap was switched off.
    Storm(Arc<Tap>),
    /// What another list told, which somebody has put beside the taps.
    Other(Record),
}

/// What a tap does besides telling of each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Counts how long calls take; for their ends.
    pub histogram: Option<HistogramId>,
    /// A signal to the process, at once.
    pub signal: Option<u32>,
    /// Calls are counted and not told.
    pub is_silent: bool,
}

/// All taps, and the processes that matter.
pub struct Taps {
    proc: PathBuf,
    rules: Box<dyn Rules>,
    reader: Option<Box<dyn Reader>>,
    descriptions: Arc<Descriptions>,
    set: Set,
    followed: BTreeSet<Pid>,
    taps: BTreeMap<Arc<Tap>, HashMap<Spot, Placed>>,
    manners: BTreeMap<Tap, Manner>,
    lists: HashMap<ListId, (Arc<Tap>, Arc<Plan>)>,
    newcomers: Option<Newcomers>,
}

/// A place in a file.
type Spot = ((u64, u64), u64);

/// The lists of a tap at one place.
struct Placed {
    /// Held open, so that the file stays what it is.
    _site: Site,
    lists: Vec<ListId>,
    timer: Option<Timer>,
}

impl Taps {
    /// None so far.
    pub fn new(
        proc: &Path,
        mut rules: Box<dyn Rules>,
        descriptions: Arc<Descriptions>,
    ) -> Result<Self, backend::Error> {
        let set = rules.make_set(Children::Included)?;
        let reader = rules.take_reader();
        let (proc, followed) = (proc.to_owned(), BTreeSet::new());
        let (taps, manners, lists) = (BTreeMap::new(), BTreeMap::new(), HashMap::new());
        let newcomers = None;
        Ok(Self {
            proc,
            rules,
            reader,
            descriptions,
            set,
            followed,
            taps,
            manners,
            lists,
            newcomers,
        })
    }

    /// The rules that the taps are among: what others add to them is told as [`News::Other`].
    pub fn rules(&mut self) -> &mut dyn Rules {
        &mut *self.rules
    }

    /// Becomes readable when something was told.
    pub fn wake(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.reader.as_ref().and_then(|reader| reader.wake())
    }

    /// Whether any tap is wanted.
    pub fn is_set(&self) -> bool {
        !self.taps.is_empty()
    }

    /// From now on these processes matter, and their children, and no others. Taps are set where
    /// those who are new have the functions.
    pub fn follow(&mut self, processes: &BTreeSet<Pid>) {
        for gone in self.followed.difference(processes) {
            self.rules.exclude(self.set, *gone);
        }
        let new: Vec<Pid> = processes.difference(&self.followed).copied().collect();
        self.followed.clone_from(processes);
        for pid in new {
            // Who has ended is not put, and has nothing to be found in.
            if let Err(error) = self.rules.include(self.set, pid) {
                tracing::warn!("calls of process {} are not seen: {error}", pid.0);
            }
            self.look_again(pid);
        }
    }

    /// Looks for the functions of all taps in a process, which may have loaded something.
    pub fn look_again(&mut self, pid: Pid) {
        for tap in Vec::from_iter(self.taps.keys().cloned()) {
            match self.place(&tap, pid) {
                Ok(_) | Err(Refusal::Place(Error::Missing { .. } | Error::Gone { .. })) => {}
                Err(error) => tracing::warn!("{} in process {}: {error}", tap.name, pid.0),
            }
        }
    }

    /// What setting a tap in this process would say, and how slow its places are.
    pub fn check(&self, tap: &Tap, pid: Pid) -> Result<Vec<Site>, Refusal> {
        let sites = find::in_process(&self.proc, pid, &Wanted::from_text(&tap.name)?)?;
        for site in sites.iter().filter(|_| tap.edge == Edge::End) {
            site::refuse_return(&Image::read(Arc::clone(&site.file))?, site)?;
        }
        Ok(sites)
    }

    /// Sets exactly these taps, in every process that matters.
    pub fn set(&mut self, wanted: &BTreeSet<Tap>) {
        let known = Vec::from_iter(self.taps.keys().cloned());
        for gone in known.iter().filter(|tap| !wanted.contains(tap)) {
            self.remove(gone);
        }
        for tap in wanted {
            _ = self.taps.entry(Arc::new(tap.clone())).or_default();
        }
        for pid in self.followed.clone() {
            self.look_again(pid);
        }
    }

    fn remove(&mut self, tap: &Arc<Tap>) {
        for placed in self.taps.remove(tap).into_iter().flatten().map(|(_, placed)| placed) {
            for list in placed.lists {
                self.rules.remove(list);
                _ = self.lists.remove(&list);
            }
            if let Some(timer) = placed.timer {
                self.rules.free(Part::Timer(timer));
            }
        }
    }

    /// Sets a tap wherever a process has the function. How many places are new.
    fn place(&mut self, tap: &Arc<Tap>, pid: Pid) -> Result<usize, Refusal> {
        let mut n_new = 0;
        for site in self.check(tap, pid)? {
            let spot = (site.file.identity, site.offset);
            if self.taps.get(tap).is_some_and(|places| places.contains_key(&spot)) {
                continue;
            }
            let placed = self.add(tap, site, pid)?;
            if let Some(places) = self.taps.get_mut(tap) {
                _ = places.insert(spot, placed);
                n_new += 1;
            }
        }
        Ok(n_new)
    }

    fn add(&mut self, tap: &Arc<Tap>, site: Site, pid: Pid) -> Result<Placed, Refusal> {
        let call = self.described(&site)?;
        let (plan, timer) = self.plan(tap, call.as_deref(), pid)?;
        let plan = Arc::new(plan);
        let place = rule::Site { path: site.file.attach_path(), offset: site.offset };
        let mut placed = Placed { _site: site, lists: Vec::new(), timer };
        let wanted =
            [(&plan.entry, Place::Entry(place.clone())), (&plan.exit, Place::Return(place))];
        for (acts, place) in wanted.into_iter().filter(|(acts, _)| !acts.is_empty()) {
            let limit = Some(MOST_CALLS);
            let list = List { place, set: Some(self.set), limit, acts: acts.clone() };
            match self.rules.add(&list) {
                Ok(id) => placed.lists.push(id),
                Err(error) => {
                    placed.lists.iter().for_each(|list| self.rules.remove(*list));
                    timer.into_iter().for_each(|timer| self.rules.free(Part::Timer(timer)));
                    return Err(error.into());
                }
            }
        }
        for list in &placed.lists {
            _ = self.lists.insert(*list, (Arc::clone(tap), Arc::clone(&plan)));
            self.rules.enable(*list);
        }
        Ok(placed)
    }

    fn plan(
        &mut self,
        tap: &Tap,
        call: Option<&Call>,
        pid: Pid,
    ) -> Result<(Plan, Option<Timer>), Refusal> {
        let manner = self.manners.get(tap).copied().unwrap_or_default();
        // Of a function that nobody has described, or that is not told, only that it was called.
        let blank = blank();
        let call = call.filter(|_| !manner.is_silent).unwrap_or(&blank);
        if tap.edge == Edge::Start {
            return Ok((Plan::start(call).with(tap.edge, manner), None));
        }
        let timer = match Plan::needs_entry(call) || manner.histogram.is_some() {
            true => Some(self.rules.make_timer(Whose::Thread)?),
            false => None,
        };
        // Without it the error number is told as no value.
        let errno = call.fails.and_then(|_| errno::offset(&self.proc, pid).ok().flatten());
        Ok((Plan::end(call, Means { timer, errno }).with(tap.edge, manner), timer))
    }

    /// What is known of the function at a site.
    fn described(&self, site: &Site) -> Result<Option<Arc<Call>>, Error> {
        let image = Image::read(Arc::clone(&site.file))?;
        let defines = |name: &str| image.symbols(|it| it == name).is_ok_and(|it| !it.is_empty());
        Ok(self.descriptions.call(site.file.name(), &site.function, defines))
    }

    /// Sets one tap more, that does more than telling.
    pub fn add_tap(&mut self, tap: Tap, manner: Manner) {
        _ = self.manners.insert(tap.clone(), manner);
        _ = self.taps.entry(Arc::new(tap)).or_default();
        for pid in self.followed.clone() {
            self.look_again(pid);
        }
    }

    /// A new histogram without values.
    pub fn make_histogram(&mut self) -> Result<HistogramId, backend::Error> {
        self.rules.make_histogram()
    }

    /// A new count that begins at zero.
    pub fn make_count(&mut self) -> Result<Cell, backend::Error> {
        self.rules.make_cell(CellKind::Sum)
    }

    /// What a count has come to.
    pub fn count(&self, cell: Cell) -> u64 {
        self.rules.cell(cell).unwrap_or(0).cast_unsigned()
    }

    /// What a histogram holds.
    pub fn histogram(&self, id: HistogramId) -> Histogram {
        self.rules.histogram(id)
    }

    /// What became of the calls that a tap saw; nothing, as long as it is nowhere.
    pub fn tally(&self, tap: &Tap) -> Option<Tally> {
        let places = self.taps.get(tap)?.values();
        // The last list of a place is that of its edge.
        let all = places.filter_map(|it| it.lists.last()).map(|list| self.rules.tally(*list));
        all.reduce(|sum, it| Tally {
            runs: sum.runs + it.runs,
            lost_records: sum.lost_records + it.lost_records,
            lost_times: sum.lost_times + it.lost_times,
            unsent: sum.unsent + it.unsent,
            ..sum
        })
    }

    /// What became of the runs of another list.
    pub fn runs(&self, list: ListId) -> Tally {
        self.rules.tally(list)
    }

    /// What was told since, at most so much.
    pub fn news(&mut self, most: usize) -> Vec<News> {
        let Some(reader) = &mut self.reader else { return Vec::new() };
        let mut records = Vec::new();
        _ = reader.read(most, &mut |record| records.push(record));
        let mut news = Vec::with_capacity(records.len());
        for record in records {
            if let Some((tap, plan)) = self.lists.get(&record.list) {
                news.push(heard(tap, plan, &record));
            } else if !self.welcome(&record) {
                news.push(News::Other(record));
            }
        }
        news
    }

    /// Records that were lost since the beginning, because nobody read as fast as they came.
    pub fn n_lost(&self) -> u64 {
        self.lists.keys().map(|list| self.rules.tally(*list).lost_records).sum()
    }
}

fn heard(tap: &Arc<Tap>, plan: &Arc<Plan>, record: &Record) -> News {
    if record.why == Why::Storm {
        return News::Storm(Arc::clone(tap));
    }
    News::Called(Called {
        tap: Arc::clone(tap),
        pid: record.process.pid,
        tid: record.tid,
        at: record.at,
        pc: record.ip,
        plan: Arc::clone(plan),
        values: heard::values(plan, record),
    })
}

/// A function that takes and gives nothing.
const fn blank() -> Call {
    Call { name: String::new(), result: Kind::Nothing, parameters: Vec::new(), fails: None }
}

impl Plan {
    /// The same, which does more than telling, or less.
    fn with(mut self, edge: Edge, manner: Manner) -> Self {
        let acts = match edge {
            Edge::Start => &mut self.entry,
            Edge::End => &mut self.exit,
        };
        if manner.is_silent {
            acts.retain(|act| !matches!(act, Act::Record(_)));
        }
        if let (Some(histogram), Edge::End) = (manner.histogram, edge) {
            // Behind the act that gives the time, as its first value.
            acts.insert(1, Act::Histogram(histogram, rule::act::Value(0)));
        }
        acts.extend(manner.signal.map(|number| Act::Signal(number, Receiver::Process)));
        // What neither tells nor counts otherwise still runs, and its runs are counted.
        if acts.is_empty() {
            acts.push(Act::Constant(rule::act::Value(0), 0));
        }
        self
    }
}
