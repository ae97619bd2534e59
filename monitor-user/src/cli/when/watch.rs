//! The session of `monitor when`: attaches the rule, prints its records, ends with a table.
//!
//! It watches existing processes, or a command that is held until the rule is attached. It ends
//! when the command or the last process exits, at the given time or number of lines, or when it is
//! interrupted.

use super::args::WhenArgs;
use super::command::{AbsenceReport, HeldCommand, SessionEnd};
use super::event::{Actions, WhenEvent};
use super::show::{EventFormatter, ShownEvent as Shown};
use crate::cli::client::runtime;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{Output, OutputState, notice};
use crate::cli::run_loop::EndSignals;
use monitor_backend::Backend as _;
use monitor_backend::rule::insn::{
    Cell, Compare, Insn, LatencyHistogramId, RecordOptions, SignalTarget,
};
use monitor_backend::rule::rule_record::RuleRecord as Record;
use monitor_backend::rule::{Children, ProgramId};
use monitor_backends::procfs::{self, Procfs, Root};
use monitor_event::tap::{Edge, Tap};
use monitor_format as format;
use monitor_loader::rule::{CallHook, KernelRules};
use monitor_model::event::Signal;
use monitor_model::id::{Identity, Pid};
use monitor_model::read_spec::ReadSpec;
use monitor_platform::rules::tracepoints::{self, Tracepoint};
use monitor_platform::tap::{TapError, TapEvent, TapOptions, Taps, UnseenCalls};
use monitor_sampling::filter::Filter;
use monitor_symbols as probe;
use monitor_symbols::signatures::Signatures;
use monitor_symbols::{calls::CallSite, site::ProbeCost};
use monitor_sys::{clock, readable};
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Interval for checking whether a process is left.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Maximum number of records handled at once.
const BATCH: usize = 4096;

/// Watches until the session ends.
pub fn watch(args: &WhenArgs, event: &WhenEvent, actions: &Actions) -> Result<u8, Failure> {
    let mut watch = WhenSession::open(args, event, *actions)?;
    if args.explain {
        let found = watch.find_processes(args)?;
        return watch.explain(event).map(|()| found as u8);
    }
    let found = watch.choose_targets(args, event)?;
    watch.attach(event)?;
    let targets = match (&watch.command, &*watch.processes) {
        (Some(_), _) => "the command and its children".to_owned(),
        (None, [id]) => format!("process {} and its children", id.pid.0),
        (None, all) => format!("{} processes and their children", all.len()),
    };
    notice(&format!("watching {targets}; {}", actions.execution_places()));
    let ended = runtime()?.block_on(watch.run(args));
    watch.close(args, found, ended?)
}

pub(super) struct WhenSession {
    pub(super) taps: Taps,
    pub(super) actions: Actions,
    by_trampoline: bool,
    pub(super) processes: Vec<Identity>,
    pub(super) command: Option<HeldCommand>,
    /// The functions; other events are counted by `rules`.
    pub(super) calls: Vec<WatchedCall>,
    /// Functions that were refused at the beginning.
    pub(super) n_refused: usize,
    pub(super) rules: Vec<InstalledRule>,
    pub(super) show: EventFormatter,
    pub(super) out: Output,
    n_lines: u64,
    /// The first calls that were not seen, and how many other processes had some.
    pub(super) unseen: Option<(UnseenCalls, usize)>,
}

/// A function that is watched: the tap that counts its calls, and how long they take.
pub(super) struct WatchedCall {
    pub(super) tap: Tap,
    pub(super) histogram: Option<LatencyHistogramId>,
}

/// The taps that a function needs, and where its times are kept.
pub(super) struct WantedTaps {
    pub(super) taps: Vec<(Tap, TapOptions)>,
    histogram: Option<LatencyHistogramId>,
}

/// A rule program that was installed, with its counter.
pub(super) struct InstalledRule {
    pub(super) id: ProgramId,
    tracepoint: Tracepoint,
    pub(super) what: String,
    pub(super) count: Cell,
}

impl WhenSession {
    fn open(args: &WhenArgs, event: &WhenEvent, actions: Actions) -> Result<Self, Failure> {
        let mut descriptions = Signatures::shipped();
        for folder in &args.calls {
            descriptions.add_folder(folder)?;
        }
        let rules = Box::new(KernelRules::open_for_calls(&call_hooks(args, event, actions))?);
        let taps =
            Taps::new(Path::new("/proc"), rules, Arc::new(descriptions), Children::Included)?;
        Ok(Self {
            taps,
            actions,
            by_trampoline: args.trampoline,
            processes: Vec::new(),
            command: None,
            calls: Vec::new(),
            n_refused: 0,
            rules: Vec::new(),
            show: EventFormatter::new(
                args.printed.is_json(),
                clock::boot(),
                clock::realtime_offset(),
            ),
            out: Output::Stream,
            n_lines: 0,
            unseen: None,
        })
    }

    async fn run(&mut self, args: &WhenArgs) -> Result<SessionEnd, Failure> {
        let failed = |error| Failure::failed(format!("cannot wait for events: {error}"));
        let ring = self.taps.wake_fd();
        let ring = ring.ok_or_else(|| Failure::failed("no ring buffer to wait for"))?;
        let wake = ring.try_clone_to_owned().and_then(readable::readable).map_err(failed)?;
        let mut signals = EndSignals::install()?;
        let mut tick = tokio::time::interval(CHECK_EVERY);
        let end = args.span.map(|span| tokio::time::Instant::now() + span);
        let mut absences = AbsenceReport::default();
        if let Some(command) = &mut self.command {
            command.release().map_err(failed)?;
        }
        loop {
            tokio::select! {
                ready = wake.readable() => {
                    ready.map_err(failed)?.clear_ready();
                }
                _ = tick.tick() => {}
                _ = signals.recv() => return Ok(SessionEnd::Interrupted),
            }
            let is_over = end.is_some_and(|end| tokio::time::Instant::now() >= end);
            let ended = match self.targets_ended() {
                true => Some(SessionEnd::Targets),
                false => is_over.then_some(SessionEnd::Limit("--for")),
            };
            // Read records after this check, so that the last ones are printed.
            if self.print_records(args)? == OutputState::Closed {
                return Ok(SessionEnd::Reader);
            }
            let has_all = args.lines.is_some_and(|most| self.n_lines >= most);
            if let Some(ended) = ended.or(has_all.then_some(SessionEnd::Limit("--lines"))) {
                return Ok(ended);
            }
            if absences.are_due(self.command.as_ref()) {
                self.report_absent_functions();
            }
        }
    }

    /// Whether the command or all processes have exited.
    fn targets_ended(&mut self) -> bool {
        match &mut self.command {
            Some(command) => command.has_ended(),
            None => !self.processes.iter().any(|id| procfs::start_time(id.pid) == Some(id.start)),
        }
    }

    /// Reads and prints the queued records.
    fn print_records(&mut self, args: &WhenArgs) -> Result<OutputState, Failure> {
        loop {
            let records = self.taps.read_events(BATCH);
            if records.is_empty() {
                return Ok(OutputState::Open);
            }
            for record in records {
                let Some(shown) = self.shown(&record) else { continue };
                if args.lines.is_some_and(|most| self.n_lines >= most) {
                    break;
                }
                self.n_lines += 1;
                let line = self.show.line(&shown) + "\n";
                if self.out.put(line.as_bytes())? == OutputState::Closed {
                    return Ok(OutputState::Closed);
                }
            }
        }
    }

    fn shown(&mut self, records: &TapEvent) -> Option<Shown> {
        match records {
            TapEvent::Call(it) => Some(self.show.call(it)).filter(|_| self.actions.print),
            TapEvent::Storm(tap, _) => {
                notice(&format!("{} is called too often: detached", tap.name));
                None
            }
            TapEvent::Unseen(calls) => {
                match &mut self.unseen {
                    Some((_, n_others)) => *n_others += 1,
                    None => self.unseen = Some((calls.clone(), 0)),
                }
                None
            }
            TapEvent::Other(record) => self.rule_event(record).filter(|_| self.actions.print),
        }
    }
}

impl WhenSession {
    /// Finds the processes, or starts the command and holds it.
    fn choose_targets(&mut self, args: &WhenArgs, event: &WhenEvent) -> Result<Exit, Failure> {
        // Only where functions are looked for: a tracepoint sees each process from its beginning.
        let holds = matches!(event, WhenEvent::Call(..));
        if !args.command.is_empty() {
            let command = HeldCommand::start(&args.command)?;
            if holds {
                self.taps.hold_at_exec()?;
            }
            self.taps.watch_new_process(command.pid())?;
            self.command = Some(command);
            return Ok(Exit::Ok);
        }
        let found = self.find_processes(args)?;
        if holds {
            self.taps.hold_at_exec()?;
        }
        self.taps.watch_processes(&self.processes.iter().map(|id| id.pid).collect());
        Ok(found)
    }

    /// Finds the processes that the arguments name.
    pub(super) fn find_processes(&mut self, args: &WhenArgs) -> Result<Exit, Failure> {
        let mut absent = Vec::new();
        for pid in args.pid.iter().map(|pid| Pid(*pid)) {
            match procfs::start_time(pid) {
                Some(start) => self.processes.push(Identity { pid, start }),
                None => absent.push(pid.0.to_string()),
            }
        }
        if !args.comm.is_empty() {
            self.processes.extend(processes_named(&args.comm)?);
        }
        if self.processes.is_empty() {
            let message = match (args.pid.is_empty(), args.comm.is_empty()) {
                (true, true) => {
                    let why = "no process selected: use --pid, --comm or -- COMMAND";
                    return Err(Failure::usage(why));
                }
                (false, _) => format!("no process {}", absent.join(", ")),
                (true, false) => format!("no process named {}", args.comm.join(" or ")),
            };
            return Err(Failure { message, exit: Exit::NoTarget });
        }
        if absent.is_empty() {
            return Ok(Exit::Ok);
        }
        notice(&format!("no process {}", absent.join(", ")));
        Ok(Exit::Partial)
    }
}

/// Where calls are probed for an event: also at the entries of programs that are executed.
fn call_hooks(args: &WhenArgs, event: &WhenEvent, actions: Actions) -> Vec<CallHook> {
    let WhenEvent::Call(edge, _) = event else { return Vec::new() };
    if args.explain {
        return Vec::new();
    }
    let end = if args.trampoline { CallHook::Trampoline } else { CallHook::Ends };
    let has_end = *edge == Edge::End || actions.time;
    [CallHook::Entry].into_iter().chain(has_end.then_some(end)).collect()
}

/// The processes with these command names.
fn processes_named(comms: &[String]) -> Result<Vec<Identity>, Failure> {
    let filter = Filter { comms: comms.to_vec(), ..Filter::default() };
    let mut backend = Procfs::open(Root::default())?;
    let sample = backend.read(&ReadSpec { processes: true, ..ReadSpec::default() })?;
    let own = std::process::id();
    let matching = sample.processes.iter().filter(|it| it.id.pid.0 != own && filter.admits(it));
    Ok(matching.map(|it| it.id).collect())
}

/// The warning about a slow probe of a tap.
fn slow(tap: &Tap, site: &CallSite) -> Option<String> {
    match (tap.edge, tap.by_trampoline) {
        (Edge::End, false) => ProbeCost::Stepped("ret".to_owned()).warning(),
        _ => site.cost.warning(),
    }
}

/// Refuses return trampolines in a process of another user, also for root: they can end it.
fn check_owner(pid: Pid) -> Result<(), Failure> {
    let own = rustix::process::geteuid().as_raw();
    match procfs::real_uid(pid) {
        Some(owner) if owner != own => {
            let message = format!(
                "process {} belongs to user {owner}, and a return trampoline can end it: only its \
                 owner can ask for one; leave --trampoline out",
                pid.0
            );
            Err(Failure { message, exit: Exit::Denied })
        }
        _ => Ok(()),
    }
}

impl WhenSession {
    pub(super) fn attach(&mut self, event: &WhenEvent) -> Result<(), Failure> {
        match event {
            WhenEvent::Call(edge, names) => self.attach_calls(*edge, names),
            WhenEvent::Signal(numbers) if numbers.is_empty() => {
                self.attach_tracepoint(Tracepoint::Signal, None, "signal".into())
            }
            WhenEvent::Signal(numbers) => numbers.iter().try_for_each(|number| {
                let it = Signal { number: *number, code: 0, thread: None };
                self.attach_tracepoint(
                    Tracepoint::Signal,
                    Some(*number),
                    format::events::signal_name(&it),
                )
            }),
            WhenEvent::Exec => self.attach_tracepoint(Tracepoint::Exec, None, "exec".into()),
            WhenEvent::End => self.attach_tracepoint(Tracepoint::Exit, None, "end".into()),
        }
    }

    /// Attaches to each of the functions that there are; fails if there are none.
    fn attach_calls(&mut self, edge: Edge, names: &[String]) -> Result<(), Failure> {
        let mut refused = Vec::new();
        for name in names {
            refused.extend(self.attach_taps(edge, name).err());
        }
        if refused.len() == names.len()
            && let Some(failure) = refused.pop()
        {
            return Err(failure);
        }
        refused.iter().for_each(|failure| notice(&failure.message));
        self.n_refused = refused.len();
        Ok(())
    }

    /// Attaches to entry or return of a function; to both if calls are timed.
    fn attach_taps(&mut self, edge: Edge, name: &str) -> Result<(), Failure> {
        let WantedTaps { taps: wanted, histogram } = self.wanted_taps(edge, name)?;
        let mut n_found = 0;
        let mut refusal_seen = None;
        // The last one is at the ends, if ends are watched.
        let last = wanted.last().map(|(tap, _)| tap.clone());
        for (id, tap) in self.processes.iter().zip(std::iter::repeat(last).flatten()) {
            // Without user workers, files are read at once.
            let Poll::Ready(found) = self.taps.find_calls(&tap, id.pid) else { continue };
            match found {
                Ok(found) => {
                    n_found += 1;
                    for warning in found.sites.iter().filter_map(|site| slow(&tap, site)) {
                        notice(&format!("{name}: {warning}; --explain measures it"));
                    }
                }
                Err(TapError::Symbol(error @ probe::SymbolError::NotLoaded { .. })) => {
                    n_found += 1;
                    notice(&format!("{error}: it is attached when it is loaded"));
                }
                Err(refusal) => refusal_seen = Some(refusal),
            }
        }
        if let Some(refusal) = refusal_seen.filter(|_| n_found == 0) {
            return Err(refusal.into());
        }
        let counting = wanted.first().map(|(tap, _)| tap.clone());
        self.calls.extend(counting.map(|tap| WatchedCall { tap, histogram }));
        for (tap, options) in wanted.into_iter().rev() {
            self.taps.add_tap(tap, options);
        }
        Ok(())
    }

    /// The taps of a rule on calls, with their options set: the one that is reported, and one at
    /// the ends if calls are timed; and the histogram of times.
    pub(super) fn wanted_taps(&mut self, edge: Edge, name: &str) -> Result<WantedTaps, Failure> {
        if self.by_trampoline {
            self.processes.iter().try_for_each(|id| check_owner(id.pid))?;
        }
        let end = Tap { by_trampoline: self.by_trampoline, ..Tap::new(name, Edge::End) };
        let tap = if edge == Edge::End { end.clone() } else { Tap::new(name, edge) };
        let signal = self.actions.signal;
        let options = TapOptions { histogram: None, signal, is_silent: !self.actions.print };
        let histogram = match self.actions.time {
            true => Some(self.taps.make_histogram()?),
            false => None,
        };
        let timed = TapOptions { histogram, ..options };
        let wanted = match (self.actions.time, edge) {
            (true, Edge::End) => vec![(tap, timed)],
            (true, Edge::Start) => {
                vec![(tap, options), (end, TapOptions { is_silent: true, ..timed })]
            }
            (false, _) => vec![(tap, options)],
        };
        for (tap, options) in &wanted {
            self.taps.set_options(tap, *options);
        }
        Ok(WantedTaps { taps: wanted, histogram })
    }

    /// Installs a rule program at a tracepoint that counts, records and signals.
    fn attach_tracepoint(
        &mut self,
        tracepoint: Tracepoint,
        number: Option<u32>,
        what: String,
    ) -> Result<(), Failure> {
        let mut acts = tracepoint.insns(None);
        acts.extend(number.map(|it| Insn::Filter(tracepoints::NUMBER, Compare::Equal, it.into())));
        let count = self.taps.make_count()?;
        acts.push(Insn::Count(count));
        let record = Insn::Record(RecordOptions { urgent: true, ..RecordOptions::default() });
        acts.extend(self.actions.print.then_some(record));
        acts.extend(self.actions.signal.map(|number| Insn::Signal(number, SignalTarget::Process)));
        let id = self.taps.add_program(tracepoint.hook_point(), acts)?;
        self.rules.push(InstalledRule { id, tracepoint, what, count });
        Ok(())
    }

    /// The event that a record of a rule program reports.
    pub(super) fn rule_event(&mut self, it: &Record) -> Option<Shown> {
        let tracepoint = self.rules.iter().find(|list| list.id == it.program)?.tracepoint;
        let value = it.regs[usize::from(tracepoints::NUMBER.0)];
        match tracepoint {
            Tracepoint::Signal => Some(self.show.signal(it.at, it.process.pid, value)),
            Tracepoint::Exec => Some(self.show.exec(it.at, it.process.pid)),
            Tracepoint::Exit => Some(self.show.end(it.at, it.process.pid, value)),
            _ => None,
        }
    }
}
