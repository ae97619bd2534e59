//! Calls of library functions as they happen: where their programs are and what their records
//! mean.
//!
//! ```text
//!  a name, processes -> resolve -> sites -> plan -> rule programs
//!                       records of these programs -> decode: process, function and values
//! ```
//!
//! In: names of functions and the processes to watch. Out: calls. A tap is set in every file in
//! which one of the processes has the function; processes that execute something else, or load a
//! library, are scanned again.

pub mod answers;
mod attach;
mod attach_program;
pub mod decode;
pub mod ends;
pub mod exec_hold;
mod fork_watch;
mod image_hold;
mod image_watch;
pub mod library_loads;
pub mod plan;
pub mod price;
pub mod tap_program;
mod unseen_calls;

use crate::{poller::backend_refusal, status_map::symbol_refusal};
use answers::CallAnswers;
use decode::CallValue;
use fork_watch::ForkWatch;
use library_loads::LibraryLoads;
use monitor_backend as backend;
use monitor_backend::rule::insn::{Cell, CellKind, LatencyHistogramId, ProcessSetId};
use monitor_backend::rule::rule_record::{self, RecordReason, RuleRecord as Record, RunCounts};
use monitor_backend::rule::{Children, ProgramId, RecordReader, Rules};
use monitor_event::outcome::Refusal;
use monitor_event::tap::{Edge, Tap};
use monitor_model::{Credentials, Histogram, Ns, Pid};
use monitor_symbols::calls::{self, CallQuery, FoundCalls};
use monitor_symbols::report::FailureClass;
use monitor_symbols::{error::SymbolError, object_file::ObjectFile, signatures::Signatures};
use plan::CallPlan;
pub use plan::TapOptions;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::{sync::Arc, task::Poll};
use tap_program::{AttachedProgram, AttachedSite, AttachedTap, FileOffset};
pub use unseen_calls::{ProbeGap, UnseenCalls};

/// Why a tap cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// There is no such function, or no safe place.
    #[error(transparent)]
    Symbol(#[from] SymbolError),
    /// The kernel does not run the program.
    #[error(transparent)]
    Kernel(#[from] backend::Error),
}

impl From<TapError> for Refusal {
    fn from(why: TapError) -> Self {
        match why {
            TapError::Symbol(error) => symbol_refusal(&error),
            TapError::Kernel(error) => backend_refusal(error),
        }
    }
}

/// A call that began or returned.
#[derive(Clone, Debug)]
pub struct CallRecord {
    /// By which tap it was seen.
    pub tap: Arc<Tap>,
    /// The tap program, if it is not the tap itself.
    pub program: Option<u64>,
    /// The process.
    pub pid: Pid,
    /// When that began.
    pub start: Ns,
    /// The viewers of that process, besides root.
    pub viewer: Option<Credentials>,
    /// Its thread.
    pub tid: Pid,
    /// When, on `CLOCK_BOOTTIME`.
    pub at: Ns,
    /// The probed instruction; of a return, where it returns to.
    pub pc: u64,
    /// The stack pointer there.
    pub sp: u64,
    /// What is stopped there until user space resumes it.
    pub stopped: rule_record::StopScope,
    /// What the values are.
    pub plan: Arc<CallPlan>,
    /// The values.
    pub values: Vec<CallValue>,
}

/// What a record says.
#[derive(Clone, Debug)]
pub enum TapEvent {
    /// A call.
    Call(CallRecord),
    /// A function is called too often: its tap, or this tap program, was switched off.
    Storm(Arc<Tap>, Option<u64>),
    /// Calls that no probe saw.
    Unseen(UnseenCalls),
    /// A record of a program that was added beside the taps.
    Other(Record),
}

impl TapEvent {
    /// When it happened, if it has a time.
    pub const fn at(&self) -> Option<Ns> {
        match self {
            Self::Call(call) => Some(call.at),
            Self::Other(record) => Some(record.at),
            Self::Storm(..) | Self::Unseen(_) => None,
        }
    }

    fn from_record((tap, plan, program): &ProgramMeaning, record: &Record) -> Self {
        if record.reason == RecordReason::Storm {
            return Self::Storm(Arc::clone(tap), *program);
        }
        Self::Call(CallRecord {
            tap: Arc::clone(tap),
            program: *program,
            pid: record.process.pid,
            start: record.process.start,
            viewer: record.credentials,
            tid: record.tid,
            at: record.at,
            pc: record.ip,
            sp: record.sp,
            stopped: record.stopped,
            plan: Arc::clone(plan),
            values: decode::values(plan, record),
        })
    }
}

/// The tap and plan of a program, and the tap program, if it is not the tap itself.
type ProgramMeaning = (Arc<Tap>, Arc<CallPlan>, Option<u64>);

/// The programs that hold processes at exec.
struct ExecHold {
    exec: ProgramId,
    /// By file and offset; the file is held open.
    entries: HashMap<FileOffset, (Arc<ObjectFile>, ProgramId)>,
}

/// All taps, and the processes that matter.
pub struct Taps {
    proc: PathBuf,
    rules: Box<dyn Rules>,
    reader: Option<Box<dyn RecordReader>>,
    signatures: Arc<Signatures>,
    marks: Vec<String>,
    /// Those of user workers; without them, this process reads files.
    answers: Option<CallAnswers>,
    /// The processes with taps or tap programs.
    set: ProcessSetId,
    included: BTreeSet<Pid>,
    watched: BTreeSet<Pid>,
    /// Where probes are being removed.
    leaving: BTreeSet<FileOffset>,
    taps: BTreeMap<Arc<Tap>, AttachedTap>,
    options: BTreeMap<Tap, TapOptions>,
    meanings: HashMap<ProgramId, ProgramMeaning>,
    programs: BTreeMap<u64, AttachedProgram>,
    exec_hold: Option<ExecHold>,
    /// Reports that a process has executed a program; while taps are set.
    exec_watch: Option<ProgramId>,
    fork_watch: Option<ForkWatch>,
    loads: LibraryLoads,
    /// Why the last process got no probes, if it got none.
    last_refusal: Option<String>,
    /// Processes that cannot be watched, since the last read.
    unseen: Vec<UnseenCalls>,
}

impl Taps {
    /// None so far. `children`: whether the children of watched processes are watched from their
    /// first instruction on, without a word of the caller.
    pub fn new(
        proc: &Path,
        mut rules: Box<dyn Rules>,
        signatures: Arc<Signatures>,
        children: Children,
    ) -> Result<Self, backend::Error> {
        let set = rules.make_set(children)?;
        let reader = rules.take_reader();
        Ok(Self {
            proc: proc.to_owned(),
            rules,
            reader,
            marks: signatures.marks().into_iter().collect(),
            signatures,
            answers: None,
            set,
            included: BTreeSet::new(),
            watched: BTreeSet::new(),
            leaving: BTreeSet::new(),
            taps: BTreeMap::new(),
            options: BTreeMap::new(),
            meanings: HashMap::new(),
            programs: BTreeMap::new(),
            exec_hold: None,
            exec_watch: None,
            fork_watch: None,
            loads: LibraryLoads::default(),
            last_refusal: None,
            unseen: Vec::new(),
        })
    }

    /// The same for a daemon: user workers read the files, and report what they found.
    pub fn with_answers(self) -> Self {
        let answers = Some(CallAnswers::new(&self.proc));
        Self { answers, ..self }
    }

    /// What user workers are asked, and have answered.
    pub fn answers(&mut self) -> Option<&mut CallAnswers> {
        self.answers.as_mut()
    }

    /// The rules that the taps are among: records of others come as [`TapEvent::Other`].
    pub fn rules(&mut self) -> &mut dyn Rules {
        &mut *self.rules
    }

    /// Becomes readable when there are records.
    pub fn wake_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.reader.as_ref().and_then(|reader| reader.wake_fd())
    }

    /// Where probes are, or may be still: files and offsets in them.
    pub fn probe_locations(&self) -> BTreeSet<FileOffset> {
        let taps = self.taps.values().flat_map(|it| it.sites.values());
        let programs = self.programs.values().flat_map(|it| it.sites.values());
        let set = taps.chain(programs).flat_map(AttachedSite::locations);
        set.chain(self.leaving.iter().copied()).collect()
    }

    /// Whether functions are to be looked for that are not known yet.
    pub fn has_questions(&self) -> bool {
        self.answers.as_ref().is_some_and(CallAnswers::has_unsent)
    }

    /// Whether taps or tap programs are for a process.
    pub fn watches(&self, pid: Pid) -> bool {
        self.watched.contains(&pid)
            || self.programs.values().any(|it| it.program.pids.contains(&pid))
    }

    /// Whether any tap is wanted.
    pub fn has_taps(&self) -> bool {
        !self.taps.is_empty() || !self.programs.is_empty()
    }

    /// Watches exactly these processes. Taps that have no processes of their own are set where new
    /// processes have the functions.
    pub fn watch_processes(&mut self, processes: &BTreeSet<Pid>) {
        let new: Vec<Pid> = processes.difference(&self.watched).copied().collect();
        self.watched.clone_from(processes);
        _ = self.watch_targets();
        for pid in new {
            self.scan_process(pid);
        }
    }

    /// Looks for the functions of the taps of a process in it: it may have loaded something.
    pub fn scan_process(&mut self, pid: Pid) {
        self.scan(pid);
        self.finish_scans();
    }

    fn scan(&mut self, pid: Pid) {
        let meant = self.taps.iter().filter(|(_, it)| it.is_for(pid));
        for tap in Vec::from_iter(meant.map(|(tap, _)| Arc::clone(tap))) {
            self.scan_for_tap(&tap, pid);
        }
        self.scan_for_programs(pid);
    }

    pub(super) fn scan_for_tap(&mut self, tap: &Arc<Tap>, pid: Pid) {
        match self.attach(tap, pid) {
            Ok(()) => {}
            Err(TapError::Symbol(error)) if is_absent(&error) => {
                self.note_absence(tap, pid, &error);
                let Some(attached) = self.taps.get_mut(tap) else { return };
                // A process without the library, or none, says less than one without the function.
                if error.class() == FailureClass::NotFound || attached.absence.is_none() {
                    attached.absence = Some(error.to_string());
                }
            }
            Err(error) => tracing::warn!("{} in process {}: {error}", tap.name, pid.0),
        }
    }

    /// Notes that a process lacks a function that it may load.
    fn note_absence(&mut self, tap: &Tap, pid: Pid, error: &SymbolError) {
        if error.class() != FailureClass::Gone {
            self.note_found(tap, pid, false);
        }
    }

    /// Where a process has the function of a tap, and how slow its places are.
    pub fn find_calls(&mut self, tap: &Tap, pid: Pid) -> Poll<Result<Arc<FoundCalls>, TapError>> {
        let returns = tap.edge == Edge::End;
        if returns && let Err(error) = ends::refuse_shadow_stack(&self.proc, pid) {
            return Poll::Ready(Err(error.into()));
        }
        let (name, marks) = (tap.name.clone(), self.marks.clone());
        let query = CallQuery { name, returns, ends: returns && !tap.by_trampoline, marks };
        let found = match &mut self.answers {
            Some(answers) => answers.find(&(pid, query)),
            None => Poll::Ready(calls::find(&self.proc, pid, &query).map(Arc::new)),
        };
        if let (true, Poll::Ready(Ok(found))) = (returns, &found) {
            self.rules.set_errno_place(pid, found.errno);
        }
        found.map_err(TapError::from)
    }

    /// Sets exactly these taps, each in its own processes and their children.
    pub fn set_taps(&mut self, wanted: &BTreeMap<Tap, BTreeSet<Pid>>) {
        let is_unwanted = |tap: &&Arc<Tap>| !wanted.contains_key(&***tap);
        for gone in Vec::from_iter(self.taps.keys().filter(is_unwanted).cloned()) {
            self.remove(&gone);
        }
        let mut new = Vec::new();
        for (tap, pids) in wanted {
            let tap = Arc::new(tap.clone());
            match self.set_processes(&tap, pids) {
                Ok(came) => new.extend(came.into_iter().map(|pid| (Arc::clone(&tap), pid))),
                Err(error) => tracing::warn!("calls of {} are not seen: {error}", tap.name),
            }
        }
        self.watched = wanted.values().flatten().copied().collect();
        self.watch_images();
        for (tap, pid) in new {
            self.scan_for_tap(&tap, pid);
        }
    }

    /// Sets the options of a tap before it is added or resolved.
    pub fn set_options(&mut self, tap: &Tap, options: TapOptions) {
        _ = self.options.insert(tap.clone(), options);
    }

    /// Adds one tap with options, for all processes that are watched.
    pub fn add_tap(&mut self, tap: Tap, options: TapOptions) {
        self.set_options(&tap, options);
        _ = self.taps.entry(Arc::new(tap)).or_default();
        self.watch_images();
        for pid in self.watched.clone() {
            self.scan_process(pid);
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
    pub fn tap_counts(&self, tap: &Tap) -> Option<RunCounts> {
        let sites = self.taps.get(tap)?.sites.values();
        let programs = sites.flat_map(AttachedSite::edge_programs);
        let mut all = programs.map(|list| self.rules.run_counts(list)).peekable();
        let _anywhere = all.peek()?;
        Some(rule_record::sum_counts(all))
    }

    /// Why a process does not have the function of a tap.
    pub fn absence(&self, tap: &Tap) -> Option<&str> {
        self.taps.get(tap)?.absence.as_deref()
    }

    /// The counts of another program.
    pub fn program_counts(&self, list: ProgramId) -> RunCounts {
        self.rules.run_counts(list)
    }

    /// Reads at most this number of records.
    pub fn read_events(&mut self, most: usize) -> Vec<TapEvent> {
        let Some(reader) = &mut self.reader else { return Vec::new() };
        let mut records = Vec::new();
        _ = reader.read(most, &mut |record| records.push(record));
        let mut events = Vec::with_capacity(records.len());
        let mut changed = BTreeSet::new();
        for record in records {
            if self.is_image_change(&record) {
                if self.is_of_linker(&record) {
                    self.note_load(&record);
                }
                _ = changed.insert(record.process.pid);
            } else if let Some(watched) =
                self.fork_watch.as_ref().and_then(|it| it.watched(&record))
            {
                events.extend(self.end_gap(watched, &record).map(TapEvent::Unseen));
            } else if let Some(meaning) = self.meanings.get(&record.program) {
                events.push(TapEvent::from_record(meaning, &record));
            } else if !self.handle_exec(&record) {
                events.push(TapEvent::Other(record));
            }
        }
        for pid in changed {
            _ = self.set_probes(pid);
            self.scan(pid);
        }
        self.finish_scans();
        events.extend(std::mem::take(&mut self.unseen).into_iter().map(TapEvent::Unseen));
        events
    }

    /// Records that were lost since the beginning, because they came faster than they were read.
    pub fn n_lost(&self) -> u64 {
        self.meanings.keys().map(|list| self.rules.run_counts(*list).lost_records).sum()
    }
}

/// Whether a process does not have the function, or not yet.
fn is_absent(error: &SymbolError) -> bool {
    matches!(error.class(), FailureClass::NotFound | FailureClass::Gone | FailureClass::NotLoaded)
}
