//! The report of a run: what a command and its descendants used, for people and as JSON.
//!
//! In: the family, how the command ended, how long it took. What was not measured is absent, and
//! the notes say why.

use crate::format::human;
use crate::meter::family::{Family, Used};
use crate::model::field::{Category, ProcessField as F, Role, Value};
use crate::model::histogram::{Histogram, Percentiles};
use crate::model::sample::{Note, Process, Source};
use crate::sys::wait::Usage;
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
    /// It and all its descendants.
    pub family: &'a Family,
    /// Who measured.
    pub source: Source,
    /// What is missing.
    pub notes: Vec<Note>,
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
    used: Used,
    notes: Vec<String>,
}

impl<'a> Report<'a> {
    /// Adds up what there is to tell.
    pub fn of(outcome: &'a Outcome<'a>) -> Self {
        let mut used = outcome.family.used();
        if outcome.source != Source::Ebpf {
            // Sampling misses the short-lived; the kernel's sum over waited-for children does not.
            raise(&mut used, F::CpuTime, outcome.usage.cpu.0);
            raise(&mut used, F::PeakRss, outcome.usage.peak_rss_bytes);
        }
        percentiles(&mut used);
        let told = outcome.notes.iter().map(|note| note.text.clone());
        let notes = told.chain(remains(outcome.family)).collect();
        Self { outcome, used, notes }
    }

    fn cpu_ns(&self) -> u64 {
        self.used.row.get(F::CpuTime).unwrap_or(0)
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
        let Outcome { command, status, wall, source, .. } = self.outcome;
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
        let _ = writeln!(out, "  [{}]", source.name());
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
            let Some(value) = self.used.row.value(*field) else { continue };
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
        let started = self.outcome.family.started().max(1);
        let counted = if self.exact() { "" } else { "at least " };
        let _ = write!(out, "  {:<12} {counted}{started}: ", "processes");
        let cpu = |row: &crate::model::field::process::ProcessRow| row.get(F::CpuTime).unwrap_or(0);
        let mut commands: Vec<_> = self.used.commands.iter().collect();
        commands.sort_by_key(|(_, (_, row))| std::cmp::Reverse(cpu(row)));
        for (name, (count, row)) in commands.iter().take(WORDS) {
            human::escaped(name, out);
            let times = if *count > 1 { format!(" x{count}") } else { String::new() };
            let _ = write!(out, "{times} ");
            human::span(cpu(row) as f64, out);
            out.push_str(", ");
        }
        out.truncate(out.trim_end_matches([',', ' ', ':']).len());
        let more = commands.len().saturating_sub(WORDS);
        let _ =
            writeln!(out, "{}", if more > 0 { format!(", {more} more") } else { String::new() });
    }

    /// Whether no process can have been missed.
    fn exact(&self) -> bool {
        self.outcome.source == Source::Ebpf
    }
}

/// Percentiles of all processes together.
fn percentiles(used: &mut Used) {
    let mut percentiles = Percentiles::default();
    let mut set = |of: &Option<Histogram>, half: F, most: F| {
        if let Some([p50, p99]) = of.as_ref().and_then(|of| percentiles.of(of, [50.0, 99.0])) {
            used.row.set(half, p50.0);
            used.row.set(most, p99.0);
        }
    };
    set(&used.latencies.block_read, F::BlockReadP50, F::BlockReadP99);
    set(&used.latencies.block_write, F::BlockWriteP50, F::BlockWriteP99);
}

fn raise(used: &mut Used, field: F, at_least: u64) {
    used.row.set(field, used.row.get(field).unwrap_or(0).max(at_least));
}

/// What of the family is still there, or went without a word.
fn remains(family: &Family) -> Vec<String> {
    let is_zombie = |it: &&Process| it.row.get(F::State) == Some(u64::from(b'Z'));
    let (zombies, running): (Vec<_>, Vec<_>) = family.living().partition(is_zombie);
    let names = |all: &[&Process]| {
        let name = |it: &&Process| format!("{} ({})", it.comm().escape_debug(), it.id.pid.0);
        all.iter().take(WORDS).map(name).collect::<Vec<_>>().join(", ")
    };
    let says = |n: usize, what: &str, who: String| {
        (n > 0).then(|| format!("{n} {what}{}{who}", if who.is_empty() { "" } else { ": " }))
    };
    [
        says(running.len(), "still running, counted until now", names(&running)),
        says(zombies.len(), "ended and not waited for (zombie)", names(&zombies)),
        says(family.awaited(), "ended without a final record, counted as last seen", String::new()),
        says(family.lost() as usize, "vanished, counted as last seen", String::new()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Outcome { command, status, wall, family, source, .. } = self.outcome;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema_version", &SCHEMA_VERSION)?;
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        map.serialize_entry("command", &words)?;
        map.serialize_entry("backend", source.name())?;
        map.serialize_entry("exit_code", &super::run::code(*status))?;
        if let Some(signal) = status.signal() {
            map.serialize_entry("exit_signal", &signal)?;
        }
        map.serialize_entry("wall_ns", &(wall.as_nanos() as u64))?;
        if self.exact() {
            map.serialize_entry("processes_started", &family.started())?;
        }
        map.serialize_entry("processes_running", &family.living().count())?;
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
            match self.used.row.value(field) {
                Some(Value::Number(n)) if gauge || list.role == Role::Counter => {
                    map.serialize_entry(list.name, &n)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
