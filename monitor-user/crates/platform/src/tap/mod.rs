//! Calls of library functions as they happen: where their lists are, and what these tell.
//!
//! ```text
//!  a name, processes -> find -> sites -> plan -> lists of the kernel
//!                       records of these lists -> heard: who called what, with which values
//! ```
//!
//! In: names of functions and the processes that matter. Out: calls. A tap is set in every file in
//! which one of the processes has the function; processes that execute something else, or load a
//! library, are looked at again.

mod errno;
pub mod heard;
mod load;
mod manner;
pub mod newcomer;
mod place;
pub mod plan;
pub mod rider;

use heard::Heard;
pub use manner::Manner;
use monitor_backend as backend;
use monitor_backend::rule::insn::{Cell, CellKind, LatencyHistogramId, ProcessSetId};
use monitor_backend::rule::rule_record;
use monitor_backend::rule::rule_record::{RecordReason, RuleRecord as Record, RunCounts};
use monitor_backend::rule::{Children, ProgramId, RecordReader, Rules};
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_model::credentials::Credentials;
use monitor_model::histogram::Histogram;
use monitor_model::id::{Ns, Pid};
use monitor_symbols::elf::ElfImage;
use monitor_symbols::error::SymbolError;
use monitor_symbols::function_spec::FunctionSpec;
use monitor_symbols::resolve;
use monitor_symbols::signatures::Signatures;
use monitor_symbols::site;
use monitor_symbols::site::ProbeSite;
use newcomer::Newcomers;
use place::{Placed, Spot};
use plan::Plan;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a tap cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is no such function, or no safe place.
    #[error(transparent)]
    Place(#[from] SymbolError),
    /// The kernel runs no such list.
    #[error(transparent)]
    Kernel(#[from] backend::Error),
}

/// A call that began or returned.
#[derive(Clone, Debug)]
pub struct Called {
    /// By which tap it was seen.
    pub tap: Arc<Tap>,
    /// For which rider, if not for the tap itself.
    pub rider: Option<u64>,
    /// The process.
    pub pid: Pid,
    /// When that began.
    pub start: Ns,
    /// Who may look into that, besides root.
    pub eyes: Option<Credentials>,
    /// Its thread.
    pub tid: Pid,
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The probed instruction; of a return, where it returns to.
    pub pc: u64,
    /// The stack pointer there.
    pub sp: u64,
    /// Who waits there for user space.
    pub held: rule_record::StopScope,
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
    /// A function is called too often: its tap was switched off, or this rider.
    Storm(Arc<Tap>, Option<u64>),
    /// What another list told, which somebody has put beside the taps.
    Other(Record),
}

impl News {
    fn told((tap, plan, rider): &Meaning, record: &Record) -> Self {
        if record.reason == RecordReason::Storm {
            return Self::Storm(Arc::clone(tap), *rider);
        }
        Self::Called(Called {
            tap: Arc::clone(tap),
            rider: *rider,
            pid: record.process.pid,
            start: record.process.start,
            eyes: record.credentials,
            tid: record.tid,
            at: record.at,
            pc: record.ip,
            sp: record.sp,
            held: record.stopped,
            plan: Arc::clone(plan),
            values: heard::values(plan, record),
        })
    }
}

/// What a list tells of, and whose it is, if not the tap's.
type Meaning = (Arc<Tap>, Arc<Plan>, Option<u64>);

/// All taps, and the processes that matter.
pub struct Taps {
    proc: PathBuf,
    rules: Box<dyn Rules>,
    reader: Option<Box<dyn RecordReader>>,
    descriptions: Arc<Signatures>,
    set: ProcessSetId,
    followed: BTreeSet<Pid>,
    taps: BTreeMap<Arc<Tap>, HashMap<Spot, Placed>>,
    manners: BTreeMap<Tap, Manner>,
    lists: HashMap<ProgramId, Meaning>,
    riders: BTreeMap<u64, rider::Mounted>,
    newcomers: Option<Newcomers>,
    /// Tells that a process has begun a program; while taps are set.
    begins: Option<ProgramId>,
}

impl Taps {
    /// None so far.
    pub fn new(
        proc: &Path,
        mut rules: Box<dyn Rules>,
        descriptions: Arc<Signatures>,
    ) -> Result<Self, backend::Error> {
        let set = rules.make_set(Children::Included)?;
        let reader = rules.take_reader();
        let (proc, followed) = (proc.to_owned(), BTreeSet::new());
        let (taps, manners, lists) = (BTreeMap::new(), BTreeMap::new(), HashMap::new());
        let (riders, newcomers) = (BTreeMap::new(), None);
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
            riders,
            newcomers,
            begins: None,
        })
    }

    /// The rules that the taps are among: what others add to them is told as [`News::Other`].
    pub fn rules(&mut self) -> &mut dyn Rules {
        &mut *self.rules
    }

    /// Becomes readable when something was told.
    pub fn wake(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.reader.as_ref().and_then(|reader| reader.wake_fd())
    }

    /// Where probes are: files and offsets in them.
    pub fn spots(&self) -> BTreeSet<Spot> {
        let taps = self.taps.values().flat_map(HashMap::keys);
        taps.chain(self.riders.values().flat_map(|it| it.places.keys())).copied().collect()
    }

    /// Whether any tap is wanted.
    pub fn is_set(&self) -> bool {
        !self.taps.is_empty() || !self.riders.is_empty()
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
                Ok(_)
                | Err(Refusal::Place(SymbolError::NotFound { .. } | SymbolError::Gone { .. })) => {}
                Err(Refusal::Place(SymbolError::NotLoaded { .. })) => {}
                Err(error) => tracing::warn!("{} in process {}: {error}", tap.name, pid.0),
            }
        }
        self.look_for_riders(pid);
    }

    /// What setting a tap in this process would say, and how slow its places are.
    pub fn check(&self, tap: &Tap, pid: Pid) -> Result<Vec<ProbeSite>, Refusal> {
        let sites = resolve::in_process(&self.proc, pid, &FunctionSpec::from_text(&tap.name)?)?;
        for site in sites.iter().filter(|_| tap.edge == Edge::End) {
            site::refuse_return(&ElfImage::read(Arc::clone(&site.file))?, site)?;
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
        self.heed_loads();
        for pid in self.followed.clone() {
            self.look_again(pid);
        }
    }

    /// Sets one tap more, that does more than telling.
    pub fn add_tap(&mut self, tap: Tap, manner: Manner) {
        _ = self.manners.insert(tap.clone(), manner);
        _ = self.taps.entry(Arc::new(tap)).or_default();
        self.heed_loads();
        for pid in self.followed.clone() {
            self.look_again(pid);
        }
    }

    /// A new histogram without values.
    pub fn make_histogram(&mut self) -> Result<LatencyHistogramId, backend::Error> {
        self.rules.make_latency_histogram()
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
    pub fn histogram(&self, id: LatencyHistogramId) -> Histogram {
        self.rules.latency_histogram(id)
    }

    /// What became of the calls that a tap saw; nothing, as long as it is nowhere.
    pub fn tally(&self, tap: &Tap) -> Option<RunCounts> {
        let places = self.taps.get(tap)?.values();
        // The last list of a place is that of its edge.
        let lists = places.filter_map(|it| it.lists.last());
        let mut all = lists.map(|list| self.rules.run_counts(*list)).peekable();
        let _anywhere = all.peek()?;
        Some(rule_record::sum_counts(all))
    }

    /// What became of the runs of another list.
    pub fn runs(&self, list: ProgramId) -> RunCounts {
        self.rules.run_counts(list)
    }

    /// What was told since, at most so much.
    pub fn news(&mut self, most: usize) -> Vec<News> {
        let Some(reader) = &mut self.reader else { return Vec::new() };
        let mut records = Vec::new();
        _ = reader.read(most, &mut |record| records.push(record));
        let mut news = Vec::with_capacity(records.len());
        let mut changed = BTreeSet::new();
        for record in records {
            if self.is_load(&record) {
                _ = changed.insert(record.process.pid);
            } else if let Some(meaning) = self.lists.get(&record.program) {
                news.push(News::told(meaning, &record));
            } else if !self.welcome(&record) {
                news.push(News::Other(record));
            }
        }
        changed.into_iter().for_each(|pid| self.look_again(pid));
        news
    }

    /// Records that were lost since the beginning, because nobody read as fast as they came.
    pub fn n_lost(&self) -> u64 {
        self.lists.keys().map(|list| self.rules.run_counts(*list).lost_records).sum()
    }
}
