//! `monitor doctor`: reports what works here, by which hook, at what cost, and how to fix the rest.
//!
//! A daemon reports what it has attached. Without one this program attaches every capability, reads
//! once and detaches again. The exit code says whether any capability is degraded.

use super::args::DoctorArgs;
use super::client::{find, runtime};
use super::exit::{Exit, Failure};
use super::progress::Spinner;
use super::{log, output};
use monitor_backends::host::Host;
use monitor_format::human;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_loader::select;
use monitor_model::read_spec::{Capability, ReadSpec};
use monitor_protocol::doctor::{CapabilityReport, DoctorReport, HostFact};
use monitor_sampling::doctor_report::{BackendState, doctor_report};
use std::fmt::Write;
use std::path::Path;

/// Prints the report of the daemon, or checks the host and every capability here.
pub fn doctor(args: &DoctorArgs) -> Result<Exit, Failure> {
    if let Some(report) = service_report(args)? {
        return print(&report, args);
    }
    let host = Host::read(Path::new("/"));
    let found = examine(args);
    let report = doctor_report(&host, found.as_ref().ok());
    let exit = print(&report, args)?;
    found.map(|_| exit)
}

/// The report of the daemon; `None` if there is none.
fn service_report(args: &DoctorArgs) -> Result<Option<DoctorReport>, Failure> {
    runtime()?.block_on(async {
        let Some(client) = find(&args.reader).await? else { return Ok(None) };
        Ok(Some(client.probes().await?))
    })
}

fn print(report: &DoctorReport, args: &DoctorArgs) -> Result<Exit, Failure> {
    let _ok = output::report(report, args.printed.is_json(), table)?;
    Ok(if report.degraded { Exit::Degraded } else { Exit::Ok })
}

fn examine(args: &DoctorArgs) -> Result<BackendState, Failure> {
    log::start(0);
    let spinner = Spinner::new();
    spinner.show("trying all capabilities");
    let (mut backend, mut notes) = select::open(args.reader.backend, Capability::ALL, 0)?;
    let read_spec = ReadSpec { processes: true, ..ReadSpec::default() };
    notes.extend(backend.read(&read_spec)?.notes);
    Ok(BackendState { backend: backend.kind().name(), probes: backend.examine(), notes })
}

/// Columns before wrapped text.
const INDENT: usize = 16;

/// Writing to a `String` cannot fail.
fn table(report: &DoctorReport) -> String {
    let mut out = String::new();
    let btf = if report.btf { "yes" } else { "no" };
    let backend = report.backend.as_deref().unwrap_or("none");
    let backend = if report.service { format!("{backend}, by the daemon") } else { backend.into() };
    let DoctorReport { version, kernel, uid, .. } = report;
    let _ = writeln!(
        out,
        "monitor {version}  kernel {kernel}  uid {uid}  BTF {btf}  backend {backend}\n\n\
         {:<15} {:<18} {:<8} {:>9} {:>8} {:>6} {:>7}",
        "CAPABILITY", "ENABLED BY", "STATE", "EVENTS", "NS/EVENT", "LOST", "MAPS"
    );
    report.capabilities.iter().for_each(|entry| capability(entry, &mut out));
    call_prices(report, &mut out);
    let _ = writeln!(out, "\n{:<27} FOUND", "HOST");
    report.host.iter().for_each(|it| host_fact(it, &mut out));
    for note in &report.notes {
        out.push_str("note: ");
        wrap(note, 6, COLUMNS, &mut out);
    }
    if report.degraded && report.backend.is_some() {
        out.push_str("\nSome capabilities are degraded: exit code 3.\n");
    }
    out
}

/// A line of numbers, then the hooks, then errors. Writing to a `String` cannot fail.
fn capability(entry: &CapabilityReport, out: &mut String) {
    let cost = entry.ns_per_event.map_or("-".into(), |ns| {
        let sign = if entry.estimated == Some(true) { "~" } else { "" };
        format!("{sign}{ns:.0}")
    });
    let maps = entry.map_bytes.map_or("-".into(), |bytes| human::scaled_text(bytes as f64, 1024.0));
    let [events, lost] =
        [entry.events, entry.lost].map(|it| it.map_or("-".into(), |n| n.to_string()));
    let CapabilityReport { name, asked_by, state, .. } = entry;
    let _ = writeln!(
        out,
        "{name:<15} {asked_by:<18} {state:<8} {events:>9} {cost:>8} {lost:>6} {maps:>7}"
    );
    let hooks = entry.hooks.join(", ");
    let texts = [
        ("", Some(hooks.as_str())),
        ("shared with ", entry.with.as_deref()),
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

/// What rules on library calls cost. Writing to a `String` cannot fail.
fn call_prices(report: &DoctorReport, out: &mut String) {
    let Some(prices) = &report.call_prices else {
        if report.service {
            out.push_str("\nProbes on calls: measured when the first rule on a call is stored.\n");
        }
        return;
    };
    let _ = writeln!(out, "\n{:<59} {:>8}", "PROBE ON A CALL", "NS/CALL");
    let rows = [
        ("start: an instruction that the kernel emulates", prices.emulated_ns),
        ("start: a five-byte NOP", prices.patched_ns),
        ("start: another instruction, single-stepped", prices.stepped_ns),
        ("end: a return instruction, single-stepped", prices.stepped_ns),
        ("end: a return trampoline, besides the start", prices.trampoline_ns),
    ];
    for (what, ns) in rows {
        let _ = writeln!(out, "{what:<59} {ns:>8}");
    }
}

/// Writing to a `String` cannot fail.
fn host_fact(it: &HostFact, out: &mut String) {
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
        let found =
            BackendState { backend: "ebpf", probes: vec![probe(health)], notes: Vec::new() };
        let host = Host::default();
        let report = doctor_report(&host, Some(&found));
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
    fn costs_that_two_capabilities_share_are_printed_once() {
        let block = Probe { events: Some(7), map_bytes: 4096, ..probe(Health::Active) };
        let pages = Probe { with: Some(Capability::Block), ..block.clone().without_numbers() };
        let pages = Probe { capability: Capability::WriteBack, ..pages };
        let found = BackendState { backend: "ebpf", probes: vec![block, pages], notes: Vec::new() };
        let host = Host::default();
        let report = doctor_report(&host, Some(&found));
        let [block, pages] = &report.capabilities[..] else { panic!("two") };
        assert_eq!((block.events, block.map_bytes), (Some(7), Some(4096)));
        assert_eq!((block.with.as_deref(), pages.with.as_deref()), (None, Some("block")));
        assert_eq!((pages.events, pages.map_bytes), (None, None));
        assert!(table(&report).contains("shared with block"));
    }

    #[test]
    fn an_inexact_fallback_and_an_unsupported_capability_are_degraded() {
        check(Health::Fallback { why: "no BTF".into(), exact: false }, "fallback", true);
        let unsupported =
            Health::Unsupported { why: "no BTF ".repeat(20), fix: "boot another".into() };
        check(unsupported, "no", true);
    }
}
