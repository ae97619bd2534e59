//! `monitor status`: prints what the daemon of this node uses, holds and has refused.
//!
//! In: the daemon's answer. Out: a table or JSON.

use super::args::daemon::DaemonReportArgs;
use super::client::with_daemon;
use super::exit::{Exit, Failure};
use super::output;
use monitor_format::human;
use monitor_protocol::status::{DaemonStatus, HttpStatus, OtlpStatus};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Requests and prints the status.
pub fn status(args: &DaemonReportArgs) -> Result<Exit, Failure> {
    let status = with_daemon(args.daemon.socket.as_deref(), async |client| client.status().await)?;
    output::report(&status, args.printed.is_json(), table)
}

/// Writing to a `String` cannot fail.
fn table(status: &DaemonStatus) -> String {
    let mut out = String::new();
    for (name, value) in costs(status).into_iter().chain(work(status)) {
        let _ = writeln!(out, "{name:<14} {value}");
    }
    if let Some(http) = &status.http {
        listener(http, &mut out);
    }
    if let Some(otlp) = &status.otlp {
        pushed(otlp, &mut out);
    }
    if status.bpf_run_estimated {
        out.push_str("~ estimated: events times a cost measured on another machine\n");
    }
    out
}

/// Identity and costs of the daemon.
fn costs(status: &DaemonStatus) -> Vec<(&'static str, String)> {
    let sign = if status.bpf_run_estimated { "~" } else { "" };
    let used = status
        .budget
        .used
        .map_or("not measured yet".into(), |used| format!("{} used", percent(used)));
    vec![
        ("version", status.version.clone()),
        ("node", status.node.clone()),
        ("pid", status.pid.to_string()),
        ("up", span(status.uptime_ns)),
        ("configuration", status.config.clone().unwrap_or_else(|| "defaults".into())),
        ("CPU, own", span(status.cpu_ns)),
        ("CPU, parts", cpu_parts(&status.cpu_parts)),
        ("CPU, hooks", format!("{sign}{}", span(status.bpf_run_ns))),
        ("budget", format!("{used}; at most {} of the machine", percent(status.budget.share))),
        ("shed", list(&status.budget.shed)),
        ("memory", bytes(status.rss_bytes)),
        ("BPF maps", bytes(status.map_bytes)),
    ]
}

/// The parts of the daemon's CPU time, the largest first.
fn cpu_parts(parts: &BTreeMap<String, u64>) -> String {
    let mut parts: Vec<_> = parts.iter().filter(|(_, ns)| **ns > 0).collect();
    parts.sort_by_key(|(_, ns)| Reverse(**ns));
    let parts: Vec<_> =
        parts.into_iter().map(|(part, ns)| format!("{part} {}", span(*ns))).collect();
    list(&parts)
}

/// Connections, work done, and losses.
fn work(status: &DaemonStatus) -> Vec<(&'static str, String)> {
    let [p50, p99, max] = [status.late_p50_ns, status.late_p99_ns, status.late_max_ns].map(span);
    let late = match status.samples {
        0 => "no sample yet".to_owned(),
        _ => format!("p50 {p50}, p99 {p99}, max {max}"),
    };
    vec![
        ("connections", status.connections.to_string()),
        ("monitors", status.monitors.to_string()),
        ("queued", bytes(status.queue_bytes)),
        ("readings", status.readings.to_string()),
        ("samples", status.samples.to_string()),
        ("late", late),
        ("dropped", status.dropped.to_string()),
        ("lost", counts(&status.lost)),
        ("refused", counts(&status.refused)),
    ]
}

fn pushed(otlp: &OtlpStatus, out: &mut String) {
    let state = otlp.last_error.as_deref().unwrap_or("ok");
    let OtlpStatus { endpoint, pushed, failed, .. } = otlp;
    let _ = writeln!(out, "{:<14} {endpoint}: {pushed} pushed, {failed} failed; {state}", "OTLP");
}

fn listener(http: &HttpStatus, out: &mut String) {
    let _ = writeln!(out, "{:<14} {}", "page", page(http));
    let _ = writeln!(out, "{:<14} {}", "token", http.token);
    let held = format!("{} connections, {} requests", http.connections, http.requests);
    let _ = writeln!(out, "{:<14} {held}; refused {}", "", counts(&http.refused));
}

/// The address of the page, with the token if this user can read it. Browsers do not send the part
/// after `#`.
fn page(http: &HttpStatus) -> String {
    match std::fs::read_to_string(&http.token) {
        Ok(token) => format!("{}/#token={}", http.address, token.trim()),
        Err(_) => format!("{}/", http.address),
    }
}

fn span(ns: u64) -> String {
    human::duration_text(ns as f64)
}

fn bytes(bytes: u64) -> String {
    human::scaled_text(bytes as f64, 1024.0) + "B"
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

fn counts(counts: &BTreeMap<String, u64>) -> String {
    let all: Vec<_> = counts.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    list(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_marked_and_empty_lists_are_printed_as_nothing() {
        let mut status = DaemonStatus { bpf_run_ns: 1_500_000, ..DaemonStatus::default() };
        assert!(table(&status).contains("CPU, hooks     1.5ms\n"));
        assert!(table(&status).contains("refused        nothing\n"));
        assert!(table(&status).contains("queued         0B\n"));
        assert!(table(&status).contains("late           no sample yet\n"));
        let parts = [("samples", 2_300_000), ("readings", 7_100_000), ("pushes", 0)];
        status.cpu_parts = parts.map(|(part, ns)| (part.to_owned(), ns)).into();
        assert!(table(&status).contains("CPU, parts     readings 7.1ms, samples 2.3ms\n"));
        status.bpf_run_estimated = true;
        status.refused = [("BAD_PARAM".to_owned(), 2)].into();
        assert!(table(&status).contains("CPU, hooks     ~1.5ms\n"));
        assert!(table(&status).contains("refused        2 BAD_PARAM\n"));
    }
}
