//! `monitor doctor`: what works here, by which hook, at what cost, and what would make the rest
//! work.
//!
//! It tries every capability, reads once, and lets go of everything again. What works as well as
//! it can is no reason to complain; the exit code says whether anything does not.

use super::args::Doctor;
use super::exit::{Exit, Failure};
use super::log;
use super::output;
use crate::backend::host::Host;
use crate::backend::select;
use crate::format::human;
use crate::format::wrap::{COLUMNS, wrap};
use crate::meter::need;
use crate::model::probe::{Health, Probe};
use crate::model::sample::Note;
use crate::model::want::{Capability, Want};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// Looks at the host and at every capability.
pub fn doctor(words: &Doctor) -> Result<Exit, Failure> {
    let host = Host::read(Path::new("/"));
    let found = examine(words);
    let report = Report::new(&host, found.as_ref().ok());
    let text = if words.format == "json" { json(&report) } else { table(&report) };
    output::print(text.as_bytes())?;
    let found = found?;
    Ok(if found.probes.iter().any(Probe::degraded) { Exit::Degraded } else { Exit::Ok })
}

/// What a backend says of itself.
struct Found {
    backend: &'static str,
    probes: Vec<Probe>,
    notes: Vec<Note>,
}

fn examine(words: &Doctor) -> Result<Found, Failure> {
    log::start(0);
    let (mut backend, mut notes) = select::open(words.backend, Capability::ALL, 0)?;
    let want = Want { processes: true, ..Want::default() };
    notes.extend(backend.read(&want)?.notes);
    Ok(Found { backend: backend.source().name(), probes: backend.examine(), notes })
}

/// What is told, in the names of the JSON form.
#[derive(Serialize)]
struct Report<'a> {
    schema_version: u32,
    version: &'static str,
    kernel: &'a str,
    uid: u32,
    btf: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<&'static str>,
    degraded: bool,
    capabilities: Vec<Entry<'a>>,
    host: Vec<Circumstance<'a>>,
    notes: Vec<&'a str>,
}

/// One capability.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'static str,
    asked_by: &'static str,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with: Option<&'static str>,
    hooks: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ns_per_event: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    map_bytes: Option<u64>,
}

/// One circumstance of the host.
#[derive(Serialize)]
struct Circumstance<'a> {
    name: &'static str,
    value: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<&'static str>,
}

impl<'a> Report<'a> {
    fn new(host: &'a Host, found: Option<&'a Found>) -> Self {
        let probes = found.map_or(&[][..], |found| &found.probes);
        let notes = found.map_or(&[][..], |found| &found.notes);
        let circumstances = host.readings.iter().map(|reading| Circumstance {
            name: reading.name,
            value: &reading.value,
            blocks: reading.blocks.map(|(blocks, _)| blocks),
            fix: reading.blocks.map(|(_, fix)| fix),
        });
        Self {
            schema_version: 1,
            version: env!("CARGO_PKG_VERSION"),
            kernel: &host.kernel,
            uid: host.uid,
            btf: host.btf,
            backend: found.map(|found| found.backend),
            degraded: found.is_none() || probes.iter().any(Probe::degraded),
            capabilities: probes.iter().map(entry).collect(),
            host: circumstances.collect(),
            notes: notes.iter().map(|note| note.text.as_str()).collect(),
        }
    }
}

fn entry(probe: &Probe) -> Entry<'_> {
    let (state, why, fix) = match &probe.health {
        Health::Active => ("active", None, None),
        Health::Fallback { why, exact: true } => ("exact", Some(why), None),
        Health::Fallback { why, exact: false } => ("fallback", Some(why), None),
        Health::Unsupported { why, fix } => ("no", Some(why), Some(fix)),
        Health::Failed { error } => ("failed", Some(error), None),
        Health::Off => ("off", None, None),
    };
    // What two capabilities share is told of the first.
    let own = |number| probe.with.is_none().then_some(number);
    Entry {
        name: probe.capability.name(),
        asked_by: need::reason(probe.capability).asked_by(),
        state,
        why: why.map(String::as_str),
        fix: fix.map(String::as_str),
        with: probe.with.map(Capability::name),
        hooks: &probe.hooks,
        events: own(probe.events),
        ns_per_event: probe.cost.map(|cost| cost.ns_per_event),
        estimated: probe.cost.map(|cost| cost.estimated),
        lost: own(probe.lost),
        map_bytes: own(probe.map_bytes),
    }
}

fn json(report: &Report<'_>) -> String {
    let mut text = serde_json::to_string(report).expect("strings and numbers always fit");
    text.push('\n');
    text
}

/// Columns before running text.
const INDENT: usize = 16;

/// Writing to a `String` cannot fail.
fn table(report: &Report<'_>) -> String {
    let mut out = String::new();
    let btf = if report.btf { "yes" } else { "no" };
    let backend = report.backend.unwrap_or("none");
    let Report { version, kernel, uid, .. } = report;
    let _ = writeln!(
        out,
        "monitor {version}  kernel {kernel}  uid {uid}  BTF {btf}  backend {backend}\n\n\
         {:<15} {:<18} {:<8} {:>9} {:>8} {:>6} {:>7}",
        "CAPABILITY", "ASKED FOR BY", "STATE", "EVENTS", "NS/EVENT", "LOST", "MAPS"
    );
    report.capabilities.iter().for_each(|entry| capability(entry, &mut out));
    let _ = writeln!(out, "\n{:<27} FOUND", "HOST");
    report.host.iter().for_each(|it| circumstance(it, &mut out));
    for note in &report.notes {
        out.push_str("note: ");
        wrap(note, 6, COLUMNS, &mut out);
    }
    if report.degraded && report.backend.is_some() {
        out.push_str("\nSome of it is not served as well as it could be: exit code 3.\n");
    }
    out
}

/// A line of numbers, then the hooks, then what is wrong. Writing to a `String` cannot fail.
fn capability(entry: &Entry<'_>, out: &mut String) {
    let cost = entry.ns_per_event.map_or("-".into(), |ns| {
        let sign = if entry.estimated == Some(true) { "~" } else { "" };
        format!("{sign}{ns:.0}")
    });
    let maps = entry.map_bytes.map_or("-".into(), |bytes| {
        let mut text = String::new();
        human::scaled(bytes as f64, 1024.0, &mut text);
        text
    });
    let [events, lost] = [entry.events, entry.lost].map(|it| it.map_or("-".into(), number));
    let Entry { name, asked_by, state, .. } = entry;
    let _ = writeln!(
        out,
        "{name:<15} {asked_by:<18} {state:<8} {events:>9} {cost:>8} {lost:>6} {maps:>7}"
    );
    let hooks = entry.hooks.join(", ");
    let texts = [
        ("", Some(hooks.as_str())),
        ("the rest with ", entry.with),
        ("why: ", entry.why),
        ("fix: ", entry.fix),
    ];
    for (label, text) in texts {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let _ = write!(out, "{:INDENT$}", "");
            wrap(&format!("{label}{text}"), INDENT, COLUMNS, out);
        }
    }
}

fn number(number: u64) -> String {
    number.to_string()
}

/// Writing to a `String` cannot fail.
fn circumstance(it: &Circumstance<'_>, out: &mut String) {
    const INDENT: usize = 28;
    let _ = write!(out, "{:<INDENT$}", it.name);
    wrap(it.value, INDENT, COLUMNS, out);
    if let (Some(blocks), Some(fix)) = (it.blocks, it.fix) {
        let _ = write!(out, "{:INDENT$}", "");
        wrap(&format!("no {blocks}; fix: {fix}"), INDENT, COLUMNS, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(health: Health) -> Probe {
        Probe { health, ..Probe::off(Capability::Block) }
    }

    #[track_caller]
    fn check(health: Health, state: &str, degraded: bool) {
        let found = Found { backend: "ebpf", probes: vec![probe(health)], notes: Vec::new() };
        let host = Host::default();
        let report = Report::new(&host, Some(&found));
        assert_eq!((report.capabilities[0].state, report.degraded), (state, degraded));
        assert!(table(&report).lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn off_and_an_exact_fallback_are_not_degraded() {
        check(Health::Active, "active", false);
        check(Health::Off, "off", false);
        check(Health::Fallback { why: "no BTF".into(), exact: true }, "exact", false);
    }

    #[test]
    fn what_two_capabilities_share_is_told_once() {
        let block = Probe { events: 7, map_bytes: 4096, ..probe(Health::Active) };
        let pages = Probe { with: Some(Capability::Block), ..block.clone().without_numbers() };
        let pages = Probe { capability: Capability::WriteBack, ..pages };
        let found = Found { backend: "ebpf", probes: vec![block, pages], notes: Vec::new() };
        let host = Host::default();
        let report = Report::new(&host, Some(&found));
        let [block, pages] = &report.capabilities[..] else { panic!("two") };
        assert_eq!((block.with, block.events, block.map_bytes), (None, Some(7), Some(4096)));
        assert_eq!((pages.with, pages.events, pages.map_bytes), (Some("block"), None, None));
        assert!(table(&report).contains("the rest with block"));
    }

    #[test]
    fn what_could_be_better_is_degraded() {
        check(Health::Fallback { why: "no BTF".into(), exact: false }, "fallback", true);
        let unsupported =
            Health::Unsupported { why: "no BTF ".repeat(20), fix: "boot another".into() };
        check(unsupported, "no", true);
    }
}
