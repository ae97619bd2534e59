//! A measurement of the calls of MPI: its probes, and what is looked up while the ranks are there.
//!
//! In: the ranks that the user names. Out: sums and open calls in the kernel, names of places,
//! sizes of types, and the functions that were given up because their probes cost too much.

use super::args::{JobCallsArgs, Overhead};
use super::call_overhead::CallOverhead;
use super::profiled_functions::{ListedFunction, ProfiledFunctions, RankProbes};
use super::target::JobTarget;
use crate::cli::exit::{Exit, Failure};
use monitor_control::call_stacks::{CallStackReader, ThreadStack, Threads, place_name};
use monitor_control::{ControlError, memory, process_ref::ProcessRef};
use monitor_format::human;
use monitor_jobs::mpi_name::unified;
use monitor_loader::call_profile::{CallPrices, CallProfiler, CallSite, CallSums, OpenCall};
use monitor_model::Identity;
use monitor_symbols::mapped_files;
use monitor_sys::clock;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PROC: &str = "/proc";
/// Bytes of a return address on the stack.
const WORD: u64 = 8;

/// A rank that is measured.
pub struct MeasuredRank {
    /// Its number.
    pub rank: u32,
    /// The process that is probed.
    pub process: Identity,
    reference: ProcessRef,
    probes: RankProbes,
    /// When its probes were set, ns on `CLOCK_BOOTTIME`.
    pub since_ns: u64,
    /// When it was seen to have ended, likewise.
    pub ended_ns: Option<u64>,
}

/// A measurement that goes on.
pub struct CallSession {
    /// The probes.
    pub profiler: CallProfiler,
    /// What is probed.
    pub functions: ProfiledFunctions,
    /// The ranks; their places are the numbers of their processes in the kernel.
    pub ranks: Vec<MeasuredRank>,
    /// What the probes cost.
    pub overhead: CallOverhead,
    /// The prices of probes.
    pub prices: CallPrices,
    /// Functions that are no longer timed, and when that was.
    pub untimed: BTreeMap<u32, Duration>,
    /// Functions that are no longer counted, likewise.
    pub uncounted: BTreeMap<u32, Duration>,
    /// When the probes were set.
    pub begun: Instant,
    /// Names of places, by process and return address.
    pub places: HashMap<(u32, u64), Arc<str>>,
    /// Bytes of an element by process and handle.
    pub sizes: HashMap<(u32, u64), Option<u64>>,
    /// What is missing or inexact.
    pub notes: Vec<String>,
    /// Whether a rank that was asked for is missing.
    pub is_partial: bool,
    reader: CallStackReader,
}

impl CallSession {
    /// Sets the probes.
    ///
    /// # Errors
    /// If no rank calls MPI, or the kernel refuses the probes.
    pub fn begin(args: &JobCallsArgs, target: &JobTarget) -> Result<Self, Failure> {
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
        for (rank, process) in target.programs() {
            session.add_rank(rank, process);
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
        let (since_ns, ended_ns) = (0, None);
        self.ranks.push(MeasuredRank { rank, process, reference, probes, since_ns, ended_ns });
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
    pub fn add_calls_of_before(&mut self) {
        let processes: Vec<Identity> = self.ranks.iter().map(|it| it.process).collect();
        let stacks = self.reader.read(&processes, Threads::All);
        for (number, stacks) in (0..).zip(stacks) {
            let stacks = match stacks {
                Ok(stacks) => stacks,
                Err(ControlError::Gone) => continue,
                Err(why) => {
                    let MeasuredRank { rank, process, .. } = &self.ranks[number as usize];
                    let pid = process.pid.0;
                    self.notes.push(format!(
                        "calls of rank {rank} (process {pid}) that had begun before are not seen: \
                         {why}"
                    ));
                    continue;
                }
            };
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
    pub fn price_ns(&self) -> u64 {
        let price = |it: &ListedFunction| {
            let end_ns = if it.profiled.is_timed == 0 { 0 } else { self.prices.end_ns };
            self.prices.start(it.kind) + end_ns
        };
        self.functions.all.iter().map(price).max().unwrap_or(0)
    }

    /// What is watched, and what that costs a call.
    pub fn announcement(&self, span: Duration) -> String {
        let most_ns = self.price_ns();
        let [most, span] = [most_ns as f64, span.as_nanos() as f64].map(human::duration_text);
        let (functions, ranks) = (self.functions.all.len(), self.ranks.len());
        format!(
            "measuring {functions} functions of {ranks} ranks for {span}, or until SIGINT; \
             meanwhile a call of them takes at most {most} longer"
        )
    }

    /// Whether a rank is there; stores when others were seen to have ended.
    pub fn has_ranks(&mut self) -> bool {
        for rank in self.ranks.iter_mut().filter(|it| it.ended_ns.is_none()) {
            rank.ended_ns = rank.reference.pidfd.has_ended().then(|| clock::boot().0);
        }
        self.ranks.iter().any(|it| it.ended_ns.is_none())
    }

    /// From time to time: looks up what must be looked up while the ranks are there, and gives up
    /// what costs too much.
    ///
    /// # Errors
    /// If the kernel refuses other probes.
    pub fn read_sums(&mut self, most: Overhead) -> Result<(), Failure> {
        if !self.overhead.is_due() {
            return Ok(());
        }
        let sums = self.profiler.sums();
        self.look_up(sums.iter().map(|(site, _)| *site));
        let Some((hottest, share)) = self.judge(&sums) else { return Ok(()) };
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

    /// The function that costs most, and the largest share of the time of a rank that probes cost.
    pub fn judge(&mut self, sums: &[(CallSite, CallSums)]) -> Option<(u32, f64)> {
        let functions = &self.functions;
        self.overhead.judge(sums, |function| functions.kind(function))
    }

    /// Finds names of new places, and sizes of new types.
    pub fn look_up(&mut self, sites: impl Iterator<Item = CallSite>) {
        let mut new: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for site in sites {
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
}
