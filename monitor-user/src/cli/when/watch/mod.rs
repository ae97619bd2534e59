//! The session of `monitor when`: attaches the rule, prints its records, ends with a table.
//!
//! It ends when the command or the last process exits, at the given time or number of lines, or
//! when it is interrupted.

mod attach;
mod targets;

use super::super::client::runtime;
use super::super::exit::{Exit, Failure};
use super::super::output::{Output, OutputState, notice};
use super::action::Actions;
use super::args::WhenArgs;
use super::command::HeldCommand;
use super::event::WhenEvent;
use super::show::{EventFormatter, ShownEvent as Shown, SummaryRow, WhenForm};
use monitor_backend::rule::ProgramId;
use monitor_backend::rule::insn::{Cell, LatencyHistogramId};
use monitor_backends::ebpf::rule::KernelRules;
use monitor_backends::procfs;
use monitor_event::tap::Edge;
use monitor_event::tap::Tap;
use monitor_model::histogram::Percentiles;
use monitor_model::id::{Identity, Ns};
use monitor_platform::rules::tracepoints::Tracepoint;
use monitor_platform::tap::{TapEvent, Taps};
use monitor_symbols::signatures::Signatures;
use monitor_sys::{clock, readable};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Interval for checking whether a process is left.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// Maximum number of records handled at once.
const BATCH: usize = 4096;

/// Watches until the session ends.
pub fn watch(args: &WhenArgs, event: &WhenEvent, actions: &Actions) -> Result<Exit, Failure> {
    let mut watch = WhenSession::open(args, *actions)?;
    let found = watch.choose_targets(args)?;
    watch.attach(event)?;
    let targets = match watch.command {
        Some(_) => "the command and its children".to_owned(),
        None => format!("{} processes and their children", watch.processes.len()),
    };
    notice(&format!("watching {targets}; {}", actions.execution_places()));
    let ended = runtime()?.block_on(watch.run(args));
    watch.close(found, ended?)
}

struct WhenSession {
    taps: Taps,
    actions: Actions,
    processes: Vec<Identity>,
    command: Option<HeldCommand>,
    /// The tap that counts calls; other events are counted by `rules`.
    tap: Option<Tap>,
    histogram: Option<LatencyHistogramId>,
    rules: Vec<InstalledRule>,
    show: EventFormatter,
    /// JSON always ends with a summary, so that a reader knows it is complete.
    is_json: bool,
    out: Output,
    n_lines: u64,
}

/// A rule program that was installed, with its counter.
struct InstalledRule {
    id: ProgramId,
    tracepoint: Tracepoint,
    what: String,
    count: Cell,
}

/// Why the session ended.
#[derive(Clone, Copy, PartialEq)]
enum WatchEnd {
    Done,
    Interrupted,
}

impl WhenSession {
    fn open(args: &WhenArgs, actions: Actions) -> Result<Self, Failure> {
        let mut descriptions = Signatures::shipped();
        for folder in &args.calls {
            descriptions.add_folder(folder)?;
        }
        let rules = Box::new(KernelRules::open()?);
        let taps = Taps::new(Path::new("/proc"), rules, Arc::new(descriptions))?;
        let now = clock::now();
        Ok(Self {
            taps,
            actions,
            processes: Vec::new(),
            command: None,
            tap: None,
            histogram: None,
            rules: Vec::new(),
            show: EventFormatter::new(
                args.output_format(),
                now.boot,
                Ns(now.unix.0.saturating_sub(now.boot.0)),
            ),
            is_json: args.output_format() == WhenForm::Json,
            out: Output::Stream,
            n_lines: 0,
        })
    }

    async fn run(&mut self, args: &WhenArgs) -> Result<WatchEnd, Failure> {
        let failed = |error| Failure::failed(format!("cannot wait for events: {error}"));
        let wake =
            self.taps.wake_fd().map(|fd| fd.try_clone_to_owned()).transpose().map_err(failed)?;
        let wake = wake.ok_or_else(|| Failure::failed("no ring buffer to wait for"))?;
        let wake = readable::readable(wake).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut tick = tokio::time::interval(CHECK_EVERY);
        let end = args.span.map(|span| tokio::time::Instant::now() + span);
        if let Some(command) = &mut self.command {
            command.release().map_err(failed)?;
        }
        loop {
            tokio::select! {
                ready = wake.readable() => {
                    ready.map_err(failed)?.clear_ready();
                }
                _ = tick.tick() => {}
                _ = interrupt.recv() => return Ok(WatchEnd::Interrupted),
                _ = terminate.recv() => return Ok(WatchEnd::Interrupted),
            }
            let is_over =
                self.targets_ended() || end.is_some_and(|end| tokio::time::Instant::now() >= end);
            // Read records after this check, so that the last ones are printed.
            if self.print_records(args)? == OutputState::Closed || is_over {
                return Ok(WatchEnd::Done);
            }
            if args.lines.is_some_and(|most| self.n_lines >= most) {
                return Ok(WatchEnd::Done);
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
            TapEvent::Other(record) => self.rule_event(record).filter(|_| self.actions.print),
        }
    }

    /// Prints the table and the number of lost records.
    fn close(mut self, found: Exit, ended: WatchEnd) -> Result<Exit, Failure> {
        let mut rows = Vec::new();
        let mut n_lost = self.taps.n_lost();
        if let Some(tap) = &self.tap {
            let runs = self.taps.tap_counts(tap);
            if runs.is_none() {
                notice(&format!("no watched process maps {}; nothing attached", tap.name));
            }
            let verb = if tap.edge == Edge::Start { "call" } else { "return" };
            let histogram = self.histogram.map(|id| self.taps.histogram(id));
            let times = histogram.and_then(|it| Percentiles::default().compute(&it, [50.0, 99.0]));
            let count = runs.map_or(0, |it| it.runs);
            rows.push(SummaryRow { what: format!("{verb} {}", tap.name), count, times });
        }
        for rule in &self.rules {
            n_lost += self.taps.program_tally(rule.id).lost_records;
            let count = self.taps.count(rule.count);
            rows.push(SummaryRow { what: rule.what.clone(), count, times: None });
        }
        if self.actions.count || self.actions.time || self.is_json {
            let _reader = self.out.put(self.show.summary(&rows, n_lost).as_bytes())?;
        }
        if n_lost > 0 {
            notice(&format!("{n_lost} records lost: they arrived faster than they were printed"));
            return Ok(Exit::Partial);
        }
        Ok(if ended == WatchEnd::Interrupted { Exit::Interrupted } else { found })
    }
}
