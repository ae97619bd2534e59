//! The calls of MPI of the ranks of a job, counted and timed for a while.
//!
//! In: the ranks that the user names, and for how long. Out: their profile, and what it lacks. The
//! probes are in these processes alone, and gone when this ends, however it ends.

use super::args::{JobCallsArgs, Overhead};
use super::call_overhead::CallOverhead;
use super::place_name::place_name;
use super::profiled_functions::{ListedFunction, ProfiledFunctions, RankProbes};
use super::rank_program::program_process;
use super::target::JobTarget;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use monitor_control::call_stacks::{CallStackReader, ThreadStack, Threads};
use monitor_control::{memory, process_ref::ProcessRef};
use monitor_format::human;
use monitor_jobs::ParallelJob;
use monitor_jobs::call_profile::{CallProfile, CallTotals, RankCalls, call_profile};
use monitor_jobs::mpi_name::unified;
use monitor_loader::call_profile::{CallPrices, CallProfiler, CallSite, CallSums, OpenCall};
use monitor_model::Identity;
use monitor_symbols::mapped_files;
use monitor_sys::{clock, pending_signals::PendingSignals};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROC: &str = "/proc";
/// Time between two readings of the sums.
const READING: Duration = Duration::from_millis(50);
/// Functions that cannot be probed, of which the reason is shown.
const MAX_REFUSED: usize = 5;
/// Bytes of a return address on the stack.
const WORD: u64 = 8;

/// A measured job.
pub struct MeasuredCalls {
    /// The job.
    pub job: ParallelJob,
    /// The name of the node.
    pub node: Arc<str>,
    /// How long it was measured.
    pub span: Duration,
    /// The profile.
    pub profile: CallProfile,
    /// The process of each rank.
    pub processes: BTreeMap<u32, Identity>,
    /// Whether calls were timed.
    pub is_timed: bool,
    /// By how much the probes make a call longer, at most, ns.
    pub price_ns: u64,
    /// The error of the time of a call, ns.
    pub error_ns: u64,
    /// The largest share of the time of a rank that the probes cost, percent.
    pub overhead: f64,
    /// What is missing or inexact.
    pub notes: Vec<String>,
    /// Whether a rank or a function that was asked for is missing.
    pub is_partial: bool,
}

/// A rank that is measured.
struct MeasuredRank {
    rank: u32,
    process: Identity,
    reference: ProcessRef,
    probes: RankProbes,
    /// When its probes were set, ns on `CLOCK_BOOTTIME`.
    since_ns: u64,
}

/// Measures the calls of the ranks.
///
/// # Errors
/// If there is no such job or rank, none of them calls MPI, or the kernel refuses the probes.
pub fn measure(args: &JobCallsArgs) -> Result<MeasuredCalls, Failure> {
    let target = JobTarget::find(&args.job)?;
    let kept = PendingSignals::keep().map_err(Failure::failed)?;
    let mut session = CallSession::begin(args, &target)?;
    session.add_calls_of_before();
    output::notice(&session.announcement(args.span));
    let (start, mut is_interrupted) = (Instant::now(), false);
    while start.elapsed() < args.span && !is_interrupted && session.has_ranks() {
        sleep(READING.min(args.span.saturating_sub(start.elapsed())));
        session.read_sums(args.max_overhead)?;
        is_interrupted = kept.take();
    }
    session.finish(target, start)
}

struct CallSession {
    profiler: CallProfiler,
    functions: ProfiledFunctions,
    ranks: Vec<MeasuredRank>,
    overhead: CallOverhead,
    prices: CallPrices,
    /// Functions that are no longer timed, and those that are no longer counted, and when.
    untimed: BTreeMap<u32, Duration>,
    uncounted: BTreeMap<u32, Duration>,
    begun: Instant,
    reader: CallStackReader,
    /// By process and return address.
    places: HashMap<(u32, u64), Arc<str>>,
    /// Bytes of an element by process and handle.
    sizes: HashMap<(u32, u64), Option<u64>>,
    notes: Vec<String>,
    is_partial: bool,
}

impl CallSession {
    /// Sets the probes.
    fn begin(args: &JobCallsArgs, target: &JobTarget) -> Result<Self, Failure> {
        let prices = CallPrices::measure()?;
        let mut session = Self {
            profiler: CallProfiler::load()?,
            functions: ProfiledFunctions::new(!args.counts),
            ranks: Vec::new(),
            overhead: CallOverhead::new(prices),
            prices,
            untimed: BTreeMap::new(),
            uncounted: BTreeMap::new(),
            begun: Instant::now(),
            reader: CallStackReader::new(args.lines),
            places: HashMap::new(),
            sizes: HashMap::new(),
            notes: Vec::new(),
            is_partial: false,
        };
        for it in target.job.ranks.iter().filter(|it| target.ranks.contains(it.rank)) {
            session.add_rank(it.rank, program_process(it));
        }
        if session.ranks.is_empty() {
            let why = session.notes.first().map(|note| format!(": {note}")).unwrap_or_default();
            let id = &target.job.id;
            let message = format!(
                "no rank of job {id} has a function of MPI that can be probed{why}; a program \
                 that MPI is linked into needs its symbols"
            );
            return Err(Failure { message, exit: Exit::NothingWatched });
        }
        let all: Vec<_> = session.functions.all.iter().map(|it| it.profiled).collect();
        session.profiler.set_functions(&all)?;
        session.set_probes()?;
        (session.begun, session.overhead) = (Instant::now(), CallOverhead::new(prices));
        Ok(session)
    }

    fn add_rank(&mut self, rank: u32, process: Identity) {
        let files = mapped_files::files(Path::new(PROC), process.pid);
        let (files, reference) = match (files, ProcessRef::open(process)) {
            (Ok((files, _)), Ok(reference)) => (files, reference),
            (Err(why), _) => return self.miss(rank, process, &why.to_string()),
            (_, Err(why)) => return self.miss(rank, process, &why.to_string()),
        };
        let probes = self.functions.add_rank(files);
        if probes.is_empty() {
            return self.miss(rank, process, "it has loaded no function of MPI");
        }
        self.ranks.push(MeasuredRank { rank, process, reference, probes, since_ns: 0 });
    }

    fn miss(&mut self, rank: u32, process: Identity, why: &str) {
        self.is_partial = true;
        self.notes.push(format!("rank {rank} (process {}) is missing: {why}", process.pid.0));
    }

    /// Sets the probes of all ranks, or replaces them.
    fn set_probes(&mut self) -> Result<(), Failure> {
        let (untimed, uncounted) = (&self.untimed, &self.uncounted);
        for (number, rank) in (0..).zip(&mut self.ranks) {
            let is_counted = |function| !uncounted.contains_key(&function);
            let files = rank.probes.files(is_counted, |function| !untimed.contains_key(&function));
            // One that has ended is noted at the end.
            let _lives = self.profiler.probe((number, rank.process.pid), &files)?;
            if rank.since_ns == 0 {
                rank.since_ns = clock::boot().0;
            }
        }
        Ok(())
    }

    /// Adds the calls in which threads were when the probes were set.
    fn add_calls_of_before(&mut self) {
        let processes: Vec<Identity> = self.ranks.iter().map(|it| it.process).collect();
        let stacks = self.reader.read(&processes, Threads::All);
        for (number, stacks) in (0..).zip(stacks) {
            // One that may not be traced has only the calls that begin.
            let Ok(stacks) = stacks else { continue };
            for thread in stacks.threads {
                if let Some(call) = self.call_of(number, &thread) {
                    self.profiler.add_open_call(thread.tid.cast_unsigned(), call);
                }
            }
        }
    }

    /// The outermost call of a timed function in a stack.
    fn call_of(&self, number: u32, thread: &ThreadStack) -> Option<OpenCall> {
        let rank = &self.ranks[number as usize];
        let mpi = thread.frames.iter().rev().find_map(|frame| {
            let name = unified(frame.place.function.as_deref()?)?;
            let is_it = |it: &ListedFunction| *it.name == *name && it.profiled.is_timed != 0;
            Some((frame.cfa, self.functions.all.iter().position(is_it)?))
        });
        let (cfa, function) = mpi?;
        let stack = cfa.checked_sub(WORD)?;
        let return_address = memory::word(&rank.reference, stack).ok()?;
        let function = u32::try_from(function).ok()?;
        let site = CallSite { process: number, function, return_address, element_type: 0 };
        Some(OpenCall { site, stack, since_ns: rank.since_ns })
    }

    /// By how much a call takes longer, ns; that of the function with the most expensive start.
    fn price_ns(&self) -> u64 {
        let price = |it: &ListedFunction| {
            let end_ns = if it.profiled.is_timed == 0 { 0 } else { self.prices.end_ns };
            self.prices.start(it.kind) + end_ns
        };
        self.functions.all.iter().map(price).max().unwrap_or(0)
    }

    /// What is watched, and what that costs a call.
    fn announcement(&self, span: Duration) -> String {
        let most_ns = self.price_ns();
        let [most, span] = [most_ns as f64, span.as_nanos() as f64].map(human::duration_text);
        let (functions, ranks) = (self.functions.all.len(), self.ranks.len());
        format!(
            "measuring {functions} functions of {ranks} ranks for {span}, or until SIGINT; \
             meanwhile a call of them takes at most {most} longer"
        )
    }

    /// Whether a rank is there.
    fn has_ranks(&self) -> bool {
        self.ranks.iter().any(|it| !it.reference.pidfd.has_ended())
    }

    /// Looks up what must be looked up while the ranks are there, and gives up what costs too much.
    fn read_sums(&mut self, most: Overhead) -> Result<(), Failure> {
        let sums = self.profiler.sums();
        self.look_up(&sums);
        let functions = &self.functions;
        let judged = self.overhead.judge(&sums, |function| functions.kind(function));
        let Some((hottest, share)) = judged else { return Ok(()) };
        let Overhead::AtMost(most) = most else { return Ok(()) };
        if share <= most {
            return Ok(());
        }
        let now = self.begun.elapsed();
        let function = &self.functions.all[hottest as usize];
        let is_timed = function.profiled.is_timed != 0 && !self.untimed.contains_key(&hottest);
        let given_up = if is_timed { &mut self.untimed } else { &mut self.uncounted };
        let _new = given_up.insert(hottest, now);
        let all = self.functions.all.iter().zip(0..).map(|(it, function)| {
            let mut profiled = it.profiled;
            profiled.is_timed &= u8::from(!self.untimed.contains_key(&function));
            profiled
        });
        self.profiler.set_functions(&all.collect::<Vec<_>>())?;
        self.set_probes()
    }

    /// Finds names of new places, and sizes of new types.
    fn look_up(&mut self, sums: &[(CallSite, CallSums)]) {
        let mut new: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for (site, _) in sums {
            let key = (site.process, site.return_address);
            if !self.places.contains_key(&key) {
                new.entry(site.process).or_default().insert(site.return_address);
            }
            let rank = &self.ranks[site.process as usize];
            if let (Some(handles), true) = (rank.probes.handles, site.element_type != 0) {
                let key = (site.process, site.element_type);
                self.sizes.entry(key).or_insert_with(|| {
                    handles.size(site.element_type, |at| memory::word(&rank.reference, at).ok())
                });
            }
        }
        for (process, addresses) in new {
            let addresses: Vec<u64> = addresses.into_iter().collect();
            let of_rank = self.ranks[process as usize].process;
            // Without names the addresses are shown.
            let Ok(found) = self.reader.places_of_calls(of_rank, &addresses) else { continue };
            let names = found.iter().map(|it| place_name(it));
            let keys = addresses.iter().map(|address| (process, *address));
            self.places.extend(keys.zip(names));
        }
    }

    /// Ends the counting, and makes the profile.
    fn finish(mut self, target: JobTarget, start: Instant) -> Result<MeasuredCalls, Failure> {
        self.profiler.end_counting()?;
        let (end_ns, span) = (clock::boot().0, start.elapsed());
        let (sums, open) = (self.profiler.sums(), self.profiler.open_calls());
        self.look_up(&sums);
        let functions = &self.functions;
        let _last = self.overhead.judge(&sums, |function| functions.kind(function));
        let mut calls: Vec<RankCalls> = sums
            .iter()
            .map(|(site, sums)| self.rank_calls(site, self.totals(site, sums)))
            .collect();
        for call in &open {
            let time_ns = end_ns.saturating_sub(call.since_ns);
            let sums = CallTotals { open: 1, time_ns, max_ns: time_ns, ..CallTotals::default() };
            calls.push(self.rank_calls(&call.site, sums));
        }
        let measured = self.ranks.iter().map(|it| (it.rank, end_ns.saturating_sub(it.since_ns)));
        let profile = call_profile(&calls, &measured.collect());
        let called: BTreeSet<Arc<str>> = calls.into_iter().map(|it| it.function).collect();
        self.add_notes(&called);
        let processes = self.ranks.iter().map(|it| (it.rank, it.process)).collect();
        Ok(MeasuredCalls {
            node: Arc::clone(&target.node),
            job: target.job,
            span,
            profile,
            processes,
            is_timed: self.functions.is_timed,
            price_ns: self.price_ns(),
            error_ns: self.prices.error_ns,
            overhead: self.overhead.largest,
            notes: self.notes,
            is_partial: self.is_partial,
        })
    }

    fn rank_calls(&self, site: &CallSite, sums: CallTotals) -> RankCalls {
        let key = (site.process, site.return_address);
        let unknown = || format!("{:#x}", site.return_address).into();
        RankCalls {
            rank: self.ranks[site.process as usize].rank,
            function: Arc::clone(&self.functions.all[site.function as usize].name),
            place: self.places.get(&key).cloned().unwrap_or_else(unknown),
            sums,
        }
    }

    /// The sums of a place, without the time that the probes themselves add to each call.
    fn totals(&self, site: &CallSite, sums: &CallSums) -> CallTotals {
        let added_ns = self.prices.empty(self.functions.kind(site.function));
        let size = self.sizes.get(&(site.process, site.element_type)).copied().flatten();
        let totals = CallTotals {
            calls: sums.calls,
            timed: sums.ended,
            time_ns: sums.time_ns.saturating_sub(sums.ended * added_ns),
            max_ns: sums.max_ns.saturating_sub(added_ns),
            open: 0,
            left: sums.left,
            // Those before the function was given up are a sample of all.
            estimated: match self.untimed.contains_key(&site.function) {
                true => sums.calls.saturating_sub(sums.ended + sums.left),
                false => 0,
            },
            sized: size.map_or(0, |_| sums.calls),
            bytes: size.map_or(0, |bytes| bytes.saturating_mul(sums.elements)),
        };
        totals.with_estimate()
    }

    /// Notes about what is missing or inexact, with the functions that were called.
    fn add_notes(&mut self, called: &BTreeSet<Arc<str>>) {
        let name = |function: &u32| Arc::clone(&self.functions.all[*function as usize].name);
        let given_up = |all: &BTreeMap<u32, Duration>, what: &str| {
            let note = |(function, after): (&u32, &Duration)| {
                let after = human::duration_text(after.as_nanos() as f64);
                format!(
                    "{} is {what} after {after}: its probes cost too much (--max-overhead)",
                    name(function)
                )
            };
            all.iter().map(note).collect::<Vec<_>>()
        };
        let mut notes = given_up(&self.untimed, "not timed");
        notes.extend(given_up(&self.uncounted, "not counted"));
        self.is_partial |= !notes.is_empty() || !self.functions.refused.is_empty();
        let untimed = self.functions.untimed.iter().filter(|(name, _)| called.contains(*name));
        notes.extend(untimed.map(|(name, why)| format!("{name} is counted, not timed: {why}")));
        let refused = self.functions.refused.iter();
        let shown = refused.clone().take(MAX_REFUSED);
        notes.extend(shown.map(|(name, why)| format!("{name} is not counted: {why}")));
        let more = refused.len().saturating_sub(MAX_REFUSED);
        notes.extend((more > 0).then(|| format!("{more} more functions are not counted")));
        for it in self.ranks.iter().filter(|it| it.reference.pidfd.has_ended()) {
            notes.push(format!(
                "rank {} (process {}) has ended meanwhile",
                it.rank, it.process.pid.0
            ));
        }
        match self.profiler.lost() {
            0 => {}
            lost => {
                self.is_partial = true;
                notes.push(format!("{lost} calls are missing: their tables are full"));
            }
        }
        self.notes.append(&mut notes);
    }
}
