//! `monitor status`: what the service of this node uses, holds and refused.

use super::args::Status;
use super::client::{connect, runtime};
use super::exit::{Exit, Failure};
use super::output;
use monitor_format::human;
use monitor_protocol::status::{Http, Otlp, Own};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Asks, and prints.
pub fn status(words: &Status) -> Result<Exit, Failure> {
    let own = runtime()?.block_on(async {
        let client = connect(words.socket.as_deref()).await?;
        Ok::<_, Failure>(client.status().await?)
    })?;
    if words.printed.is_json() {
        return output::print(output::json(&own)?.as_bytes());
    }
    output::print(table(&own).as_bytes())
}

/// Writing to a `String` cannot fail.
fn table(own: &Own) -> String {
    let mut out = String::new();
    for (name, value) in costs(own).into_iter().chain(work(own)) {
        let _ = writeln!(out, "{name:<14} {value}");
    }
    if let Some(http) = &own.http {
        listener(http, &mut out);
    }
    if let Some(otlp) = &own.otlp {
        pushed(otlp, &mut out);
    }
    if own.bpf_run_estimated {
        out.push_str("~ estimated: events, times a cost that was measured elsewhere\n");
    }
    out
}

/// Who it is, and what it uses.
fn costs(own: &Own) -> Vec<(&'static str, String)> {
    let sign = if own.bpf_run_estimated { "~" } else { "" };
    let used =
        own.budget.used.map_or("not measured yet".into(), |used| format!("{} used", percent(used)));
    vec![
        ("version", own.version.clone()),
        ("node", own.node.clone()),
        ("pid", own.pid.to_string()),
        ("up", span(own.uptime_ns)),
        ("configuration", own.config.clone().unwrap_or_else(|| "defaults".into())),
        ("CPU, own", span(own.cpu_ns)),
        ("CPU, hooks", format!("{sign}{}", span(own.bpf_run_ns))),
        ("budget", format!("{used}; at most {} of the machine", percent(own.budget.share))),
        ("given up", list(&own.budget.shed)),
        ("memory", bytes(own.rss_bytes)),
        ("BPF maps", bytes(own.map_bytes)),
    ]
}

/// What it does, and what it could not do.
fn work(own: &Own) -> Vec<(&'static str, String)> {
    let [p50, p99, most] = [own.late_p50_ns, own.late_p99_ns, own.late_max_ns].map(span);
    let late = match own.samples {
        0 => "no sample yet".to_owned(),
        _ => format!("half {p50}, 99 in 100 {p99}, at most {most}"),
    };
    vec![
        ("connections", own.connections.to_string()),
        ("monitors", own.monitors.to_string()),
        ("queued", bytes(own.queue_bytes)),
        ("readings", own.readings.to_string()),
        ("samples", own.samples.to_string()),
        ("late", late),
        ("dropped", own.dropped.to_string()),
        ("lost", counts(&own.lost)),
        ("refused", counts(&own.refused)),
    ]
}

fn pushed(otlp: &Otlp, out: &mut String) {
    let state = otlp.trouble.as_deref().unwrap_or("all is well");
    let Otlp { endpoint, pushed, failed, .. } = otlp;
    let _ = writeln!(out, "{:<14} {endpoint}: {pushed} pushed, {failed} failed; {state}", "OTLP");
}

fn listener(http: &Http, out: &mut String) {
    let _ = writeln!(out, "{:<14} {}", "page", page(http));
    let _ = writeln!(out, "{:<14} {}", "its token", http.token);
    let held = format!("{} connections, {} requests", http.connections, http.requests);
    let _ = writeln!(out, "{:<14} {held}; refused {}", "", counts(&http.refused));
}

/// The address of the page, with the token for who can read it. A browser keeps to itself what
/// stands behind `#`.
fn page(http: &Http) -> String {
    match std::fs::read_to_string(&http.token) {
        Ok(token) => format!("{}/#token={}", http.address, token.trim()),
        Err(_) => format!("{}/", http.address),
    }
}

fn span(ns: u64) -> String {
    let mut out = String::new();
    human::span(ns as f64, &mut out);
    out
}

fn bytes(bytes: u64) -> String {
    let mut out = String::new();
    human::scaled(bytes as f64, 1024.0, &mut out);
    out + "B"
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
    fn what_is_estimated_is_marked_and_nothing_is_said_to_be_nothing() {
        let mut own = Own { bpf_run_ns: 1_500_000, ..Own::default() };
        assert!(table(&own).contains("CPU, hooks     1.5ms\n"));
        assert!(table(&own).contains("refused        nothing\n"));
        assert!(table(&own).contains("queued         0B\n"));
        assert!(table(&own).contains("late           no sample yet\n"));
        own.bpf_run_estimated = true;
        own.refused = [("BAD_PARAM".to_owned(), 2)].into();
        assert!(table(&own).contains("CPU, hooks     ~1.5ms\n"));
        assert!(table(&own).contains("refused        2 BAD_PARAM\n"));
    }
}
