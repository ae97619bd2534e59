//! The report of a run: what a command and its descendants used, for people and as JSON.
//!
//! In: the family, how the command ended, how long it took. What was not measured is absent, and
//! the notes say why.

use monitor_format::human;
use monitor_model::field::process::ProcessRow;
use monitor_model::field::{Category, ProcessField as F, Role, Value};
use monitor_model::sample::Source;
use monitor_protocol::answer::{Left, Totals};
use monitor_sys::wait::Usage;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Version of the JSON form.
const SCHEMA_VERSION: u32 = 1;
/// Words of the command, and command names of descendants, that the text repeats.
const WORDS: usize = 6;

/// The source where only the parent knows something.
pub const WAIT: &str = "wait";

/// Who counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// This program.
    Here,
    /// The daemon.
    ByDaemon,
}

/// How a run came out.
pub struct Outcome<'a> {
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// How it ended.
    pub status: ExitStatus,
    /// From its start to its end.
    pub wall: Duration,
    /// What the kernel says that it and its waited-for children used.
    pub usage: Usage,
    /// What it and all its descendants used.
    pub totals: Totals,
    /// Who counted.
    pub counted: Counted,
}

/// The lines of the text, each with the fields that it names.
const LINES: &[(&str, &[(F, &str)])] = &[
    ("memory", &[(F::PeakRss, "at most in one process"), (F::MajorFaults, "major faults")]),
    ("switches", &[(F::VoluntarySwitches, "waiting"), (F::InvoluntarySwitches, "preempted")]),
    ("storage", &[(F::ReadBytes, "caused to be read"), (F::WrittenBytes, "to be written")]),
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
    ("tcp", &[(F::TcpSent, "sent"), (F::TcpReceived, "received"), (F::TcpRetransmits, "again")]),
    ("udp", &[(F::UdpSent, "sent"), (F::UdpReceived, "received")]),
];

/// The report.
pub struct Report<'a> {
    outcome: &'a Outcome<'a>,
    row: ProcessRow,
    notes: Vec<String>,
}

impl<'a> Report<'a> {
    /// Adds up what there is to tell.
    pub fn of(outcome: &'a Outcome<'a>) -> Self {
        let totals = &outcome.totals;
        let mut row = ProcessRow::default();
        for (name, value) in &totals.counters {
            if let Some(field) = F::named(name) {
                row.set(field, *value);
            }
        }
        let mut it = Self { outcome, row, notes: Vec::new() };
        if !it.exact() {
            // Sampling misses the short-lived; the kernel's sum over waited-for children does not.
            it.raise(F::CpuTime, outcome.usage.cpu.0);
            it.raise(F::UserTime, outcome.usage.user.0);
            it.raise(F::SystemTime, outcome.usage.system.0);
            if let Some(peak) = outcome.usage.peak_rss_bytes {
                it.raise(F::PeakRss, peak);
            }
        }
        it.notes = totals.notes.iter().cloned().chain(remains(totals)).collect();
        it
    }

    fn raise(&mut self, field: F, at_least: u64) {
        self.row.set(field, self.row.get(field).unwrap_or(0).max(at_least));
    }

    fn cpu_ns(&self) -> u64 {
        self.row.get(F::CpuTime).unwrap_or(0)
    }

    /// A few lines for people.
    pub fn text(&self) -> String {
        let mut out = self.head();
        self.processor(&mut out);
        for (name, fields) in LINES {
            self.line(name, fields, &mut out);
        }
        self.processes(&mut out);
        for note in &self.notes {
            let _ = writeln!(out, "  {:<12} {note}", "note");
        }
        out
    }

    /// What was run, how it ended, when.
    fn head(&self) -> String {
        let Outcome { command, status, wall, totals, counted, .. } = self.outcome;
        let mut out = String::from("\n");
        for word in command.iter().take(WORDS) {
            human::escaped(&word.to_string_lossy(), &mut out);
            out.push(' ');
        }
        out.push_str(if command.len() > WORDS { "... " } else { "" });
        let _ = match (status.code(), status.signal()) {
            (Some(0), _) => write!(out, "succeeded"),
            (Some(code), _) => write!(out, "failed with code {code}"),
            (None, signal) => write!(out, "was ended by signal {}", signal.unwrap_or(0)),
        };
        out.push_str(" after ");
        human::span(wall.as_nanos() as f64, &mut out);
        // Where it went away meanwhile, there is only what wait(2) tells here.
        let is_theirs = *counted == Counted::ByDaemon && totals.backend != WAIT;
        let by = if is_theirs { ", by the daemon" } else { "" };
        let _ = writeln!(out, "  [{}{by}]", totals.backend);
        out
    }

    fn processor(&self, out: &mut String) {
        let busy = self.cpu_ns() as f64 / self.outcome.wall.as_nanos().max(1) as f64;
        let fields = [
            (F::CpuTime, "used"),
            (F::UserTime, "user"),
            (F::SystemTime, "system"),
            (F::RunDelay, "ready but not running"),
        ];
        self.line("cpu", &fields, out);
        let _ = writeln!(out, "  {:<12} {busy:.2} processors busy on average", "");
    }

    /// One line, if anything on it is there and not zero.
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

    /// How many there were, and which used most.
    fn processes(&self, out: &mut String) {
        // The command itself ran, even if no sample saw it.
        let totals = &self.outcome.totals;
        let started = totals.processes_started.max(1);
        let counted = if self.exact() { "" } else { "at least " };
        let _ = write!(out, "  {:<12} {counted}{started}: ", "processes");
        let mut commands: Vec<_> = totals.commands.iter().collect();
        commands.sort_by_key(|it| std::cmp::Reverse(it.cpu_ns));
        for it in commands.iter().take(WORDS) {
            human::escaped(&it.comm, out);
            let times =
                if it.processes > 1 { format!(" x{}", it.processes) } else { String::new() };
            let _ = write!(out, "{times} ");
            human::span(it.cpu_ns as f64, out);
            out.push_str(", ");
        }
        out.truncate(out.trim_end_matches([',', ' ', ':']).len());
        let more = commands.len().saturating_sub(WORDS);
        let _ =
            writeln!(out, "{}", if more > 0 { format!(", {more} more") } else { String::new() });
    }

    /// Whether no process can have been missed.
    fn exact(&self) -> bool {
        self.outcome.totals.backend == Source::Ebpf.name()
    }
}

/// What of the family is still there, or went without a word.
fn remains(totals: &Totals) -> Vec<String> {
    let (zombies, running): (Vec<_>, Vec<_>) = totals.left.iter().partition(|it| it.zombie);
    let names = |all: &[&Left]| {
        let name = |it: &&Left| format!("{} ({})", it.comm.escape_debug(), it.pid);
        all.iter().take(WORDS).map(name).collect::<Vec<_>>().join(", ")
    };
    let says = |n: usize, what: &str, who: String| {
        (n > 0).then(|| format!("{n} {what}{}{who}", if who.is_empty() { "" } else { ": " }))
    };
    let (awaited, lost) = (totals.awaited as usize, totals.lost as usize);
    [
        says(running.len(), "still running, counted until now", names(&running)),
        says(zombies.len(), "ended and not waited for (zombie)", names(&zombies)),
        says(awaited, "ended without a final record, counted as last seen", String::new()),
        says(lost, "vanished, counted as last seen", String::new()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Outcome { command, status, wall, totals, .. } = self.outcome;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema_version", &SCHEMA_VERSION)?;
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        map.serialize_entry("command", &words)?;
        map.serialize_entry("backend", &totals.backend)?;
        map.serialize_entry("exit_code", &super::run::code(*status))?;
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
        map.end()
    }
}

impl Report<'_> {
    /// Sums of counters, the peak, and the percentiles, under the names of the field list.
    fn serialize_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for field in F::all() {
            let list = field.field();
            let gauge = matches!(
                field,
                F::PeakRss
                    | F::BlockReadP50
                    | F::BlockReadP99
                    | F::BlockWriteP50
                    | F::BlockWriteP99
            );
            match self.row.value(field) {
                Some(Value::Number(n)) if gauge || list.role == Role::Counter => {
                    map.serialize_entry(list.name, &n)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
