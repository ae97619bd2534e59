//! `monitor doctor`: what works here, by which hook, at what cost, and what would make the rest
//! work.
//!
//! A service is asked what it holds. Without one this program tries every capability, reads once,
//! and lets go of everything again. What works as well as it can is no reason to complain; the
//! exit code says whether anything does not.

use super::args::Doctor;
use super::client::{found, runtime};
use super::exit::{Exit, Failure};
use super::log;
use super::output;
use super::waiting::Waiting;
use monitor_backends::host::Host;
use monitor_backends::select;
use monitor_format::human;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_model::want::{Capability, Want};
use monitor_sampling::examination::{Circumstance, Entry, Examination, Found};
use std::fmt::Write;
use std::path::Path;

/// Asks the service, or looks at the host and at every capability here.
pub fn doctor(words: &Doctor) -> Result<Exit, Failure> {
    if let Some(report) = of_service(words)? {
        return told(&report, words);
    }
    let host = Host::read(Path::new("/"));
    let found = examine(words);
    let report = Examination::of(&host, found.as_ref().ok());
    let exit = told(&report, words)?;
    found.map(|_| exit)
}

/// What the service says of itself: it holds what this program could only try.
fn of_service(words: &Doctor) -> Result<Option<Examination>, Failure> {
    runtime()?.block_on(async {
        let Some(client) = found(&words.reader).await? else { return Ok(None) };
        Ok(Some(client.probes().await?))
    })
}

fn told(report: &Examination, words: &Doctor) -> Result<Exit, Failure> {
    let text = if words.printed.is_json() { output::json(report)? } else { table(report) };
    output::print(text.as_bytes())?;
    Ok(if report.degraded { Exit::Degraded } else { Exit::Ok })
}

fn examine(words: &Doctor) -> Result<Found, Failure> {
    log::start(0);
    let waiting = Waiting::new();
    waiting.say("trying what works here");
    let (mut backend, mut notes) = select::open(words.reader.backend, Capability::ALL, 0)?;
    let want = Want { processes: true, ..Want::default() };
    notes.extend(backend.read(&want)?.notes);
    Ok(Found { backend: backend.source().name(), probes: backend.examine(), notes })
}

/// Columns before running text.
const INDENT: usize = 16;

/// Writing to a `String` cannot fail.
fn table(report: &Examination) -> String {
    let mut out = String::new();
    let btf = if report.btf { "yes" } else { "no" };
    let backend = report.backend.as_deref().unwrap_or("none");
    let backend =
        if report.service { format!("{backend}, by the service") } else { backend.into() };
    let Examination { version, kernel, uid, .. } = report;
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
fn capability(entry: &Entry, out: &mut String) {
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
        ("the rest with ", entry.with.as_deref()),
        ("why: ", entry.why.as_deref()),
        ("fix: ", entry.fix.as_deref()),
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
fn circumstance(it: &Circumstance, out: &mut String) {
    const INDENT: usize = 28;
    let _ = write!(out, "{:<INDENT$}", it.name);
    wrap(&it.value, INDENT, COLUMNS, out);
    if let (Some(blocks), Some(fix)) = (&it.blocks, &it.fix) {
        let _ = write!(out, "{:INDENT$}", "");
        wrap(&format!("no {blocks}; fix: {fix}"), INDENT, COLUMNS, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::probe::{Health, Probe};

    fn probe(health: Health) -> Probe {
        Probe { health, ..Probe::off(Capability::Block) }
    }

    #[track_caller]
    fn check(health: Health, state: &str, degraded: bool) {
        let found = Found { backend: "ebpf", probes: vec![probe(health)], notes: Vec::new() };
        let host = Host::default();
        let report = Examination::of(&host, Some(&found));
        assert_eq!((&*report.capabilities[0].state, report.degraded), (state, degraded));
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
        let report = Examination::of(&host, Some(&found));
        let [block, pages] = &report.capabilities[..] else { panic!("two") };
        assert_eq!((block.events, block.map_bytes), (Some(7), Some(4096)));
        assert_eq!((block.with.as_deref(), pages.with.as_deref()), (None, Some("block")));
        assert_eq!((pages.events, pages.map_bytes), (None, None));
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
