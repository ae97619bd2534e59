//! A measurement of the calls of MPI: its probes, and what is looked up while the ranks are there.
//!
//! In: the ranks that the user names. Out: sums and open calls in the kernel, names of places,
//! sizes of types, and the functions that were given up because their probes cost too much. What
//! is in the files and the memory of ranks is asked of another one, perhaps with other rights.

use super::functions::{ListedFunction, ProfiledFunctions, RankProbes};
use super::options::{CallError, CallOptions};
use super::overhead::CallOverhead;
use crate::tap::ends::refuse_shadow_stack;
use monitor_backend::call_profile::{
    CallEnds, CallProbePrices, CallProfiler, CallSite, CallSums, OpenCall, OpenCallProfiler,
};
use monitor_backends::procfs;
use monitor_control::call_questions::{
    CallAnswer, CallAnswers, CallQuestion, StackCall, ThreadCalls,
};
use monitor_control::{ControlError, process_ref::ProcessRef};
use monitor_model::Identity;
use monitor_sys::clock;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PROC: &str = "/proc";
/// Bytes of a return address on the stack.
const WORD: u64 = 8;

/// A rank that is measured.
#[derive(Debug)]
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
    pub profiler: Box<dyn CallProfiler>,
    /// How it measures.
    pub options: CallOptions,
    /// What is probed.
    pub functions: ProfiledFunctions,
    /// The ranks; their places are the numbers of their processes in the kernel.
    pub ranks: Vec<MeasuredRank>,
    /// What the probes cost.
    pub overhead: CallOverhead,
    /// The prices of probes.
    pub prices: CallProbePrices,
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
    /// Calls that had begun before and returned without a probe.
    pub unseen_ends: usize,
    /// The calls in which threads were when trampolines were set.
    before: Vec<(u32, OpenCall)>,
    answers: Box<dyn CallAnswers>,
}

impl CallSession {
    /// Sets the probes in ranks, each with its number.
    ///
    /// # Errors
    /// If no rank calls MPI, the kernel refuses the probes, or trampolines were asked for in a
    /// process of another user.
    pub fn begin(
        open: OpenCallProfiler,
        options: CallOptions,
        ranks: &[(u32, Identity)],
        answers: Box<dyn CallAnswers>,
    ) -> Result<Self, CallError> {
        ranks.iter().try_for_each(|(_, process)| check_owner(options, *process))?;
        let profiler = open(options.ends, options.links)?;
        let prices = profiler.prices();
        let mut session = Self {
            profiler,
            options,
            functions: ProfiledFunctions::default(),
            ranks: Vec::new(),
            overhead: CallOverhead::new(prices),
            prices,
            untimed: BTreeMap::new(),
            uncounted: BTreeMap::new(),
            begun: Instant::now(),
            places: HashMap::new(),
            sizes: HashMap::new(),
            notes: Vec::new(),
            is_partial: false,
            unseen_ends: 0,
            before: Vec::new(),
            answers,
        };
        for (rank, process) in ranks {
            session.add_rank(*rank, *process);
        }
        if session.ranks.is_empty() {
            let why = session.notes.first().map(|note| format!(": {note}")).unwrap_or_default();
            return Err(CallError::NothingToProbe(why));
        }
        let all: Vec<_> = session.functions.all.iter().map(|it| it.profiled).collect();
        session.profiler.set_functions(&all)?;
        session.set_probes()?;
        (session.begun, session.overhead) = (Instant::now(), CallOverhead::new(prices));
        Ok(session)
    }

    fn add_rank(&mut self, rank: u32, process: Identity) {
        let found = self.ask(CallQuestion::Functions(process));
        let (found, reference) = match (found, ProcessRef::open(process)) {
            (Ok(CallAnswer::Functions(found)), Ok(reference)) => (found, reference),
            (Ok(_), Ok(_)) => return self.miss((rank, process), "it cannot be read"),
            (Err(why), _) | (_, Err(why)) => return self.miss((rank, process), &why.to_string()),
        };
        let mut ends = self.options.ends;
        if ends != CallEnds::Unseen
            && let Err(why) = refuse_shadow_stack(Path::new(PROC), process.pid)
        {
            self.notes.push(format!("calls of rank {rank} are not timed: {why}"));
            ends = CallEnds::Unseen;
        }
        let probes = match self.functions.add_rank(process.pid, found, ends) {
            Ok(probes) => probes,
            Err(why) => return self.miss((rank, process), &why.to_string()),
        };
        if probes.is_empty() {
            return self.miss((rank, process), "it has loaded no function of MPI");
        }
        let (since_ns, ended_ns) = (0, None);
        self.ranks.push(MeasuredRank { rank, process, reference, probes, since_ns, ended_ns });
    }

    fn ask(&mut self, question: CallQuestion) -> Result<CallAnswer, ControlError> {
        self.answers.answer(question)?.checked()
    }

    fn miss(&mut self, (rank, process): (u32, Identity), why: &str) {
        self.is_partial = true;
        self.notes.push(format!("rank {rank} (process {}) is missing: {why}", process.pid.0));
    }

    /// Sets the probes of all ranks, or replaces them.
    fn set_probes(&mut self) -> Result<(), CallError> {
        let (untimed, uncounted) = (&self.untimed, &self.uncounted);
        for (number, rank) in (0..).zip(&mut self.ranks) {
            let is_counted = |function| !uncounted.contains_key(&function);
            let files = rank.probes.files(is_counted, |function| !untimed.contains_key(&function));
            let (process, pidfd) = (rank.process, &rank.reference.pidfd);
            // One that has ended is noted at the end.
            if !pidfd.has_ended() {
                let _lives = self.profiler.probe((number, process.pid), &files)?;
            }
            if pidfd.has_ended() {
                // They may be in another process, which has its pid now.
                let _gone = self.profiler.probe((number, process.pid), &[])?;
            } else {
                // It may have executed a program of another user meanwhile.
                check_owner(self.options, process)?;
            }
            if rank.since_ns == 0 {
                rank.since_ns = clock::boot().0;
            }
        }
        Ok(())
    }

    /// Adds the calls in which threads were when the probes were set.
    pub fn add_calls_of_before(&mut self) {
        for number in 0..u32::try_from(self.ranks.len()).unwrap_or(u32::MAX) {
            let MeasuredRank { rank, process, .. } = self.ranks[number as usize];
            let threads = match self.ask(CallQuestion::Open(process)) {
                Ok(CallAnswer::Open(threads)) => threads,
                Ok(_) | Err(ControlError::Gone) => continue,
                Err(why) => {
                    let pid = process.pid.0;
                    self.notes.push(format!(
                        "calls of rank {rank} (process {pid}) that had begun before are not seen: \
                         {why}"
                    ));
                    continue;
                }
            };
            for thread in threads {
                match (self.call_of(number, &thread), self.options.ends) {
                    (None, _) => {}
                    (Some(call), CallEnds::Trampolines) => self.before.push((thread.tid, call)),
                    (Some(call), _) => self.profiler.add_open_call(thread.tid, call),
                }
            }
        }
    }

    /// The outermost call of a timed function in a stack.
    fn call_of(&self, number: u32, thread: &ThreadCalls) -> Option<OpenCall> {
        let found = thread.calls.iter().find_map(|call| {
            let is_it =
                |it: &ListedFunction| *it.name == *call.function && it.ends != CallEnds::Unseen;
            Some((call, self.functions.all.iter().position(is_it)?))
        });
        let (call, function) = found?;
        let function = u32::try_from(function).ok()?;
        let (return_address, stack) = (call.return_address, call.stack);
        let site = CallSite { process: number, function, return_address, element_type: 0 };
        let since_ns = self.ranks[number as usize].since_ns;
        Some(OpenCall { site, stack, since_ns })
    }

    /// The calls that have not ended, and those of before that have, unseen. The return address of
    /// a call that had begun before the trampolines is not replaced: whether it has ended is seen
    /// in the stack of its thread.
    pub fn open_calls(&mut self) -> (Vec<OpenCall>, Vec<OpenCall>) {
        let mut open: Vec<OpenCall> =
            self.profiler.open_calls().into_iter().map(|(_, call)| call).collect();
        let mut threads: BTreeMap<u32, Vec<ThreadCalls>> = BTreeMap::new();
        let of_before: BTreeSet<u32> =
            self.before.iter().map(|(_, call)| call.site.process).collect();
        for number in of_before {
            let process = self.ranks[number as usize].process;
            // Of a rank that has ended the stack is not there any more.
            if let Ok(CallAnswer::Open(found)) = self.ask(CallQuestion::Open(process)) {
                let _none = threads.insert(number, found);
            }
        }
        let before = self.before.iter().copied();
        let (still, ended): (Vec<_>, Vec<_>) = before.partition(|(tid, call)| {
            let of_rank = threads.get(&call.site.process);
            of_rank.is_some_and(|all| all.iter().any(|it| is_in(it, (*tid, call))))
        });
        open.extend(still.into_iter().map(|(_, call)| call));
        self.unseen_ends = ended.len();
        (open, ended.into_iter().map(|(_, call)| call).collect())
    }

    /// By how much a call takes longer, ns; that of the function with the most expensive start.
    pub fn price_ns(&self) -> u64 {
        let price = |it: &ListedFunction| {
            let end_ns = if it.ends == CallEnds::Unseen { 0 } else { self.prices.end_ns };
            self.prices.start(it.kind) + end_ns
        };
        self.functions.all.iter().map(price).max().unwrap_or(0)
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
    pub fn read_sums(&mut self) -> Result<(), CallError> {
        if !self.overhead.is_due() {
            return Ok(());
        }
        let sums = self.profiler.sums();
        self.look_up(sums.iter().map(|(site, _)| *site));
        let Some((hottest, share)) = self.judge(&sums) else { return Ok(()) };
        if self.options.max_overhead.is_none_or(|most| share <= most) {
            return Ok(());
        }
        let now = self.begun.elapsed();
        let function = &self.functions.all[hottest as usize];
        let is_timed = function.ends != CallEnds::Unseen && !self.untimed.contains_key(&hottest);
        let given_up = if is_timed { &mut self.untimed } else { &mut self.uncounted };
        let _new = given_up.insert(hottest, now);
        let all = self.functions.all.iter().zip(0..).map(|(it, function)| {
            let mut profiled = it.profiled;
            if self.untimed.contains_key(&function) {
                profiled.ends = CallEnds::Unseen.in_kernel();
            }
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
        let mut places: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        let mut types: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for site in sites {
            if !self.places.contains_key(&(site.process, site.return_address)) {
                places.entry(site.process).or_default().insert(site.return_address);
            }
            if site.element_type != 0
                && !self.sizes.contains_key(&(site.process, site.element_type))
            {
                types.entry(site.process).or_default().insert(site.element_type);
            }
        }
        for (number, addresses) in places {
            let addresses = Vec::from_iter(addresses);
            let process = self.ranks[number as usize].process;
            // Without names the addresses are shown.
            let asked = self.ask(CallQuestion::Places(process, addresses.clone()));
            if let Ok(CallAnswer::Places(names)) = asked {
                let keys = addresses.into_iter().map(|address| (number, address));
                self.places.extend(keys.zip(names.iter().map(|it| it.as_str().into())));
            }
        }
        for (number, all) in types {
            let all = Vec::from_iter(all);
            let MeasuredRank { process, probes, .. } = &self.ranks[number as usize];
            let Some(handles) = probes.handles else { continue };
            let asked = self.ask(CallQuestion::Sizes(*process, handles, all.clone()));
            if let Ok(CallAnswer::Sizes(sizes)) = asked {
                let keys = all.into_iter().map(|handle| (number, handle));
                self.sizes.extend(keys.zip(sizes));
            }
        }
    }
}

/// Whether a thread is in a call.
fn is_in(thread: &ThreadCalls, (tid, call): (u32, &OpenCall)) -> bool {
    let is_it =
        |it: &StackCall| (it.stack, it.return_address) == (call.stack, call.site.return_address);
    thread.tid == tid && thread.top <= call.stack + WORD && thread.calls.iter().any(is_it)
}

/// Refuses trampolines in a process of another user, also for root: they can end it.
fn check_owner(options: CallOptions, process: Identity) -> Result<(), CallError> {
    if options.ends != CallEnds::Trampolines {
        return Ok(());
    }
    match procfs::real_uid(process.pid) {
        Some(owner) if owner != options.user => {
            Err(CallError::OfOtherUser { pid: process.pid.0, owner })
        }
        _ => Ok(()),
    }
}
