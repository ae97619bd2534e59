//! The report of `monitor run`: what a command and its descendants used, as text and as JSON.
//!
//! In: the totals of the process tree, the exit status, the elapsed time. What was not measured is
//! absent, and the notes say why.

use monitor_format::{human, loss_text};
use monitor_model::field::process::ProcessRow;
use monitor_model::field::{Category, FieldValue, ProcessField as F, Role};
use monitor_model::sample::BackendKind;
use monitor_protocol::answer::{RunningProcess, UsageTotals};
use monitor_sys::{pidfd::returned_code, wait::Usage};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Version of the JSON form.
const SCHEMA_VERSION: u32 = 1;
/// Maximum number of command arguments, and of command names of descendants, in the text.
const WORDS: usize = 6;

/// The backend name where only wait(2) supplied numbers.
pub const WAIT: &str = "wait";

/// The result of a run.
pub struct RunOutcome<'a> {
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// Its exit status.
    pub status: ExitStatus,
    /// Time from start to exit.
    pub wall: Duration,
    /// Usage of the command and its waited-for children, from wait(2).
    pub usage: Usage,
    /// Usage of the command and all its descendants.
    pub totals: UsageTotals,
    /// Whether the daemon counted, not this process.
    pub by_daemon: bool,
}

/// The lines of the text, each with its fields and their labels.
const LINES: &[(&str, &[(F, &str)])] = &[
    ("memory", &[(F::PeakRss, "peak of one process"), (F::MajorFaults, "major faults")]),
    ("switches", &[(F::VoluntarySwitches, "waiting"), (F::InvoluntarySwitches, "preempted")]),
    ("storage", &[(F::ReadBytes, "read"), (F::WrittenBytes, "written")]),
    (
        "disk reads",
        &[
            (F::BlockReads, "requests"),
            (F::BlockReadBytes, "read"),
            (F::BlockReadP50, "median"),
            (F::BlockReadP99, "99th percentile"),
        ],
    ),
    (
        "disk writes",
        &[
            (F::BlockWrites, "requests"),
            (F::BlockWrittenBytes, "written"),
            (F::BlockWriteP50, "median"),
            (F::BlockWriteP99, "99th percentile"),
        ],
    ),
    (
        "tcp",
        &[(F::TcpSent, "sent"), (F::TcpReceived, "received"), (F::TcpRetransmits, "retransmitted")],
    ),
    ("udp", &[(F::UdpSent, "sent"), (F::UdpReceived, "received")]),
];

/// The report of a run.
pub struct RunReport<'a> {
    outcome: &'a RunOutcome<'a>,
    row: ProcessRow,
    /// Fields that lack what ended between two readings.
    sampled: Vec<F>,
    notes: Vec<String>,
}

impl<'a> RunReport<'a> {
    /// Builds the report.
    pub fn from_outcome(outcome: &'a RunOutcome<'a>) -> Self {
        let totals = &outcome.totals;
        let mut row = ProcessRow::default();
        for (name, value) in &totals.counters {
            if let Some(field) = F::from_name(name) {
                row.set(field, *value);
            }
        }
        let mut it = Self { outcome, row, sampled: Vec::new(), notes: Vec::new() };
        if !it.exact() {
            it.use_wait();
        }
        let notes = totals.notes.iter().cloned().chain(remaining_notes(totals));
        it.notes = notes.chain(it.sampled_note()).collect();
        it
    }

    /// Sampling misses short-lived processes. wait(2) returns the usage of the command and of all
    /// descendants that were waited for; the other fields stay as sampled.
    fn use_wait(&mut self) {
        let usage = &self.outcome.usage;
        let known = [
            (F::CpuTime, Some(usage.cpu.0)),
            (F::UserTime, Some(usage.user.0)),
            (F::SystemTime, Some(usage.system.0)),
            (F::MinorFaults, Some(usage.minor_faults)),
            (F::MajorFaults, Some(usage.major_faults)),
            (F::VoluntarySwitches, Some(usage.voluntary_switches)),
            (F::InvoluntarySwitches, Some(usage.involuntary_switches)),
            (F::ReadBytes, Some(usage.read_bytes)),
            (F::WrittenBytes, Some(usage.written_bytes)),
            (F::PeakRss, usage.peak_rss_bytes),
        ];
        for (field, value) in known {
            // What still runs, or was not waited for, is known from samples alone.
            let sampled = self.row.get(field).unwrap_or(0);
            self.row.set_some(field, value.map(|value| value.max(sampled)));
        }
        let is_sampled = |field: &F| {
            self.row.get(*field).is_some()
                && !known.iter().any(|(it, value)| it == field && value.is_some())
        };
        self.sampled = F::all().filter(is_sampled).collect();
    }

    /// Says which values may be too low.
    fn sampled_note(&self) -> Option<String> {
        let peak = if self.sampled.contains(&F::PeakRss) { "" } else { ", peak memory" };
        (!self.sampled.is_empty()).then(|| {
            format!(
                "CPU time, faults, switches, storage bytes{peak} are from wait(2); the others are \
                 sampled once a second and lack what ended in between"
            )
        })
    }

    fn cpu_ns(&self) -> u64 {
        self.row.get(F::CpuTime).unwrap_or(0)
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut out = self.head();
        self.cpu(&mut out);
        for (name, fields) in LINES {
            self.line(name, fields, &mut out);
        }
        self.processes(&mut out);
        for note in &self.notes {
            let _ = writeln!(out, "  {:<12} {note}", "note");
        }
        out
    }

    /// The command, how it ended, and after what time.
    fn head(&self) -> String {
        let RunOutcome { command, status, wall, totals, by_daemon, .. } = self.outcome;
        let mut out = String::from("\n");
        for word in command.iter().take(WORDS) {
            human::escaped(&word.to_string_lossy(), &mut out);
            out.push(' ');
        }
        out.push_str(if command.len() > WORDS { "... " } else { "" });
        let _ = match (status.code(), status.signal()) {
            (Some(0), _) => write!(out, "succeeded"),
            (Some(code), _) => write!(out, "failed with code {code}"),
            (None, signal) => write!(out, "was killed by signal {}", signal.unwrap_or(0)),
        };
        out.push_str(" after ");
        human::duration(wall.as_nanos() as f64, &mut out);
        // If the daemon went away meanwhile, the numbers are from wait(2).
        let by = if *by_daemon && totals.backend != WAIT { ", by the daemon" } else { "" };
        let _ = writeln!(out, "  [{}{by}]", totals.backend);
        out
    }

    fn cpu(&self, out: &mut String) {
        let busy = self.cpu_ns() as f64 / self.outcome.wall.as_nanos().max(1) as f64;
        let fields = [
            (F::CpuTime, "used"),
            (F::UserTime, "user"),
            (F::SystemTime, "system"),
            (F::RunDelay, "waiting for a CPU"),
        ];
        self.line("cpu", &fields, out);
        let _ = writeln!(out, "  {:<12} {busy:.2} processors busy on average", "");
    }

    /// One line, if any of its fields is present and not zero.
    fn line(&self, name: &str, fields: &[(F, &str)], out: &mut String) {
        let mut line = format!("  {name:<12} ");
        let mut any = false;
        for (field, what) in fields {
            let Some(value) = self.row.value(*field) else { continue };
            any |= value.as_f64() != Some(0.0);
            human::value(field.field(), value, &mut line);
            let _ = write!(line, " {what}, ");
        }
        if any {
            out.push_str(line.trim_end_matches(", "));
            out.push('\n');
        }
    }

    /// The number of processes, and the commands that used most CPU.
    fn processes(&self, out: &mut String) {
        // The command itself ran, even if no sample contains it.
        let totals = &self.outcome.totals;
        let started = totals.processes_started.max(1);
        let counted = if self.exact() { "" } else { "at least " };
        let _ = write!(out, "  {:<12} {counted}{started}: ", "processes");
        let mut commands: Vec<_> = totals.commands.iter().collect();
        commands.sort_by_key(|it| std::cmp::Reverse(it.cpu_ns));
        for it in commands.iter().take(WORDS) {
            let times =
                if it.processes > 1 { format!(" x{}", it.processes) } else { String::new() };
            let (comm, cpu) =
                (human::escaped_text(&it.comm), human::duration_text(it.cpu_ns as f64));
            let _ = write!(out, "{comm}{times} {cpu}, ");
        }
        out.truncate(out.trim_end_matches([',', ' ', ':']).len());
        let more = commands.len().saturating_sub(WORDS);
        out.push_str(&if more > 0 { format!(", {more} more\n") } else { "\n".into() });
    }

    /// Whether no process can be missing: true with eBPF.
    fn exact(&self) -> bool {
        self.outcome.totals.backend == BackendKind::Ebpf.name()
    }
}

/// Notes about descendants that still run, or vanished without a final record.
fn remaining_notes(totals: &UsageTotals) -> Vec<String> {
    let (zombies, running): (Vec<_>, Vec<_>) = totals.left.iter().partition(|it| it.zombie);
    let names = |all: &[&RunningProcess]| {
        let name = |it: &&RunningProcess| format!("{} ({})", it.comm.escape_debug(), it.pid);
        all.iter().take(WORDS).map(name).collect::<Vec<_>>().join(", ")
    };
    let says = |n: usize, what: &str, names: String| {
        (n > 0).then(|| format!("{n} {what}{}{names}", if names.is_empty() { "" } else { ": " }))
    };
    let (awaited, lost) = (totals.awaited as usize, totals.lost as usize);
    let (approximate, torn) = (totals.approximate as usize, totals.torn as usize);
    [
        says(running.len(), "still running, counted until now", names(&running)),
        says(zombies.len(), "exited and not waited for (zombie)", names(&zombies)),
        says(awaited, "exited without a final record, counted as last read", String::new()),
        says(lost, "vanished, counted as last read", String::new()),
        says(
            approximate,
            "exited and the final record was lost, counted as of exit",
            String::new(),
        ),
        says(torn, "read while their threads ended, counted without some of them", String::new()),
    ]
    .into_iter()
    .flatten()
    .chain(totals.dropped.iter().map(loss_text))
    .collect()
}

impl Serialize for RunReport<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let RunOutcome { command, status, wall, totals, .. } = self.outcome;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema_version", &SCHEMA_VERSION)?;
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        map.serialize_entry("command", &words)?;
        map.serialize_entry("backend", &totals.backend)?;
        map.serialize_entry("exit_code", &returned_code(*status))?;
        if let Some(signal) = status.signal() {
            map.serialize_entry("exit_signal", &signal)?;
        }
        map.serialize_entry("wall_ns", &(wall.as_nanos() as u64))?;
        if self.exact() {
            map.serialize_entry("processes_started", &totals.processes_started)?;
        }
        let zombies = totals.left.iter().filter(|it| it.zombie).count();
        map.serialize_entry("processes_running", &(totals.left.len() - zombies))?;
        map.serialize_entry("processes_zombie", &zombies)?;
        self.serialize_fields(&mut map)?;
        map.serialize_entry("notes", &self.notes)?;
        map.serialize_entry("lost", &totals.dropped)?;
        let sampled: Vec<_> = self.sampled.iter().map(|it| it.field().name).collect();
        map.serialize_entry("sampled", &sampled)?;
        map.end()
    }
}

impl RunReport<'_> {
    /// Sums of counters, the peak memory and the percentiles, named as in the field list.
    fn serialize_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        use F::{BlockReadP50, BlockReadP99, BlockWriteP50, BlockWriteP99, PeakRss};
        let gauges = [PeakRss, BlockReadP50, BlockReadP99, BlockWriteP50, BlockWriteP99];
        for field in F::all() {
            let list = field.field();
            if let Some(FieldValue::Number(n)) = self.row.value(field)
                && (list.role == Role::Counter || gauges.contains(&field))
            {
                map.serialize_entry(list.name, &n)?;
            }
        }
        Ok(())
    }
}
