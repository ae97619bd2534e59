//! Metrics of the daemon itself: its usage, its losses, and the state of each capability.
//!
//! In: the daemon's status and the list of probes. Out: metric families in base units. Measures
//! nothing.

use monitor_format::exposition::MetricType::{Counter, Gauge};
use monitor_format::exposition::{Exposition, FamilyHead, Labels};
use monitor_model::{Health, Ns, Probe};
use monitor_protocol::status::{DaemonStatus, HttpStatus};
use std::collections::BTreeMap;

/// All metric families of the daemon.
pub fn self_metrics(own: &DaemonStatus, probes: &[Probe]) -> Exposition {
    let mut all = Exposition::default();
    cost(&mut all, own);
    resources(&mut all, own);
    health(&mut all, probes);
    probed(&mut all, probes);
    if let Some(http) = &own.http {
        http_listener(&mut all, http);
    }
    if let Some(otlp) = &own.otlp {
        let results = [("taken", otlp.pushed), ("failed", otlp.failed)];
        let points = results.map(|(it, n)| (vec![("result", it.into())], n as f64));
        all.add(("monitor_otlp_pushes", "", "Pushes to the collector", Counter), points);
    }
    all
}

/// Adds families of one point without labels.
fn add_totals(all: &mut Exposition, rows: impl IntoIterator<Item = (FamilyHead, f64)>) {
    for (head, value) in rows {
        all.add(head, [(Labels::new(), value)]);
    }
}

fn seconds(ns: u64) -> f64 {
    Ns(ns).seconds()
}

fn cost(all: &mut Exposition, own: &DaemonStatus) {
    let cpu = "CPU time of the daemon, including the task iterator";
    let hooks = "Run time of its hooks, in the time of the processes that hit them";
    let estimated = "Whether monitor_own_hook_seconds is estimated in part";
    let (rss, maps) = ("Resident memory of the daemon", "Memory of its BPF maps");
    let share = "Largest share of the machine that it may use";
    let used = "Share of the machine used in the last window, including hooks";
    let is_estimated = u8::from(own.bpf_run_estimated);
    let rows = [
        (("monitor_own_cpu_seconds", "seconds", cpu, Counter), seconds(own.cpu_ns)),
        (("monitor_own_hook_seconds", "seconds", hooks, Counter), seconds(own.bpf_run_ns)),
        (("monitor_own_hook_estimated", "", estimated, Gauge), is_estimated.into()),
        (("monitor_own_resident_bytes", "bytes", rss, Gauge), own.rss_bytes as f64),
        (("monitor_own_map_bytes", "bytes", maps, Gauge), own.map_bytes as f64),
        (("monitor_own_budget_ratio", "ratio", share, Gauge), own.budget.share),
    ];
    add_totals(all, rows);
    let parts = own.cpu_parts.iter();
    let parts = parts.map(|(part, ns)| (vec![("part", (&**part).into())], seconds(*ns)));
    let help = "CPU time of the daemon by what it was used for";
    all.add(("monitor_own_part_cpu_seconds", "seconds", help, Counter), parts);
    let used = ("monitor_own_used_ratio", "ratio", used, Gauge);
    add_totals(all, own.budget.used.map(|share| (used, share)));
    let shed = own.budget.shed.iter().map(|it| (vec![("capability", (&**it).into())], 1.0));
    let help = "Capabilities given up to keep within the budget";
    all.add(("monitor_own_given_up", "", help, Gauge), shed);
}

fn resources(all: &mut Exposition, own: &DaemonStatus) {
    let connections = "Connections to its socket";
    let (uptime, queue) = ("Time since its start", "Bytes queued for clients");
    let dropped = "Samples dropped because a client was too slow";
    let rows = [
        (("monitor_own_uptime_seconds", "seconds", uptime, Gauge), seconds(own.uptime_ns)),
        (("monitor_own_connections", "", connections, Gauge), own.connections as f64),
        (("monitor_own_monitors", "", "Monitors", Gauge), own.monitors as f64),
        (("monitor_own_queue_bytes", "bytes", queue, Gauge), own.queue_bytes as f64),
        (("monitor_own_readings", "", "Readings", Counter), own.readings as f64),
        (("monitor_own_samples", "", "Samples sent", Counter), own.samples as f64),
        (("monitor_own_dropped_samples", "", dropped, Counter), own.dropped as f64),
    ];
    add_totals(all, rows);
    let refused = "Calls and connections refused";
    all.add(("monitor_own_refused", "", refused, Counter), counts(&own.refused, "kind"));
}

fn counts<'a>(
    counts: &'a BTreeMap<String, u64>,
    label: &'static str,
) -> impl Iterator<Item = (Labels, f64)> + 'a {
    counts.iter().map(move |(kind, n)| (vec![(label, (&**kind).into())], *n as f64))
}

/// One point for each capability, with its state as a label.
fn health(all: &mut Exposition, probes: &[Probe]) {
    let of = |it: &Probe| {
        let health = match it.health {
            Health::Active => "active",
            Health::Fallback { exact: true, .. } => "fallback",
            Health::Fallback { exact: false, .. } => "inexact",
            Health::Unsupported { .. } => "unsupported",
            Health::Failed { .. } => "failed",
            Health::Off => "off",
        };
        (vec![("capability", it.capability.name().into()), ("health", health.into())], 1.0)
    };
    let help = "State of each capability: active, fallback, inexact, unsupported, failed, off";
    all.add(("monitor_probe_health", "", help, Gauge), probes.iter().map(of));
}

/// Events, losses and cost of each attached capability.
fn probed(all: &mut Exposition, probes: &[Probe]) {
    let label = |it: &Probe| vec![("capability", it.capability.name().into())];
    let attached = || probes.iter().filter(|it| !it.hooks.is_empty() && it.with.is_none());
    let each = |of: fn(&Probe) -> f64| attached().map(move |it| (label(it), of(it)));
    let (events, lost) = ("Events since it was attached", "Records lost since it was attached");
    let counted = attached().filter_map(|it| Some((label(it), it.events? as f64)));
    all.add(("monitor_probe_events", "", events, Counter), counted);
    all.add(("monitor_probe_lost_records", "", lost, Counter), each(|it| it.lost as f64));
    let maps = ("monitor_probe_map_bytes", "bytes", "Memory of its maps", Gauge);
    all.add(maps, each(|it| it.map_bytes as f64));
    let known = attached().filter_map(|probe| {
        let cost = probe.cost?;
        let measured = if cost.estimated { "no" } else { "yes" };
        let labels = label(probe).into_iter().chain([("measured", measured.into())]);
        Some((labels.collect(), cost.ns_per_event / 1e9))
    });
    let cost = "Run time of its programs for each event";
    all.add(("monitor_probe_event_cost_seconds", "seconds", cost, Gauge), known);
}

fn http_listener(all: &mut Exposition, http: &HttpStatus) {
    let connections = "Connections to this listener";
    let rows = [
        (("monitor_http_connections", "", connections, Gauge), http.connections as f64),
        (("monitor_http_requests", "", "Requests", Counter), http.requests as f64),
    ];
    add_totals(all, rows);
    let refused = "Requests and connections refused, timed out or dropped";
    all.add(("monitor_http_refused", "", refused, Counter), counts(&http.refused, "kind"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_format::exposition::{Dialect, text};
    use monitor_model::read_spec::Capability;

    #[test]
    fn a_capability_that_is_off_has_a_state_and_no_counts() {
        let mut block = Probe::off(Capability::Block);
        (block.health, block.events) = (Health::Active, Some(7));
        block.hooks.push("tp_btf/x".into());
        let all = self_metrics(&DaemonStatus::default(), &[block, Probe::off(Capability::Signals)]);
        let out = text(&all, Dialect::Prometheus);
        let said = |line: &str| assert!(out.lines().any(|it| it == line), "{line} in {out}");
        said(r#"monitor_probe_health{capability="block",health="active"} 1"#);
        said(r#"monitor_probe_health{capability="signals",health="off"} 1"#);
        said(r#"monitor_probe_events_total{capability="block"} 7"#);
        assert!(!out.contains(r#"events_total{capability="signals"#));
    }
}
