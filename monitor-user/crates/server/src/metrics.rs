//! The service about itself, as families: its cost, its losses, and how each capability is served.
//!
//! In: its own numbers and the list of probes. Out: families in base units. Measures nothing.

use monitor_format::exposition::{Exposition, Heading, Labels, Shape};
use monitor_model::id::Ns;
use monitor_model::probe::{Health, Probe};
use monitor_protocol::status::{Http, Own};
use std::collections::BTreeMap;

/// All of it.
pub fn own(own: &Own, probes: &[Probe]) -> Exposition {
    let mut all = Exposition::default();
    cost(&mut all, own);
    held(&mut all, own);
    health(&mut all, probes);
    probed(&mut all, probes);
    if let Some(http) = &own.http {
        listener(&mut all, http);
    }
    if let Some(otlp) = &own.otlp {
        let results = [("taken", otlp.pushed), ("failed", otlp.failed)];
        let points = results.map(|(it, n)| (vec![("result", it.into())], n as f64));
        all.add(("monitor_otlp_pushes", "", "Pushes to the collector", Shape::Counter), points);
    }
    all
}

fn one(all: &mut Exposition, heading: Heading, value: f64) {
    all.add(heading, [(Labels::new(), value)]);
}

fn seconds(ns: u64) -> f64 {
    Ns(ns).seconds()
}

fn cost(all: &mut Exposition, own: &Own) {
    use Shape::{Counter, Gauge};
    let cpu = "CPU time of the service, passes of the task iterator among it";
    let hooks = "Run time of its hooks, in the time of whoever ran into them";
    let estimated = "Whether a part of monitor_own_hook_seconds is estimated";
    let used = "Share of the machine that it used in the last window, hooks among it";
    one(all, ("monitor_own_cpu_seconds", "seconds", cpu, Counter), seconds(own.cpu_ns));
    one(all, ("monitor_own_hook_seconds", "seconds", hooks, Counter), seconds(own.bpf_run_ns));
    let is = f64::from(u8::from(own.bpf_run_estimated));
    one(all, ("monitor_own_hook_estimated", "", estimated, Gauge), is);
    let rss = ("monitor_own_resident_bytes", "bytes", "Resident memory of the service", Gauge);
    one(all, rss, own.rss_bytes as f64);
    let maps = ("monitor_own_map_bytes", "bytes", "Memory of its BPF maps", Gauge);
    one(all, maps, own.map_bytes as f64);
    let share = ("monitor_own_budget_ratio", "ratio", "Most of the machine it may use", Gauge);
    one(all, share, own.budget.share);
    if let Some(share) = own.budget.used {
        one(all, ("monitor_own_used_ratio", "ratio", used, Gauge), share);
    }
    let shed = own.budget.shed.iter().map(|it| (vec![("capability", (&**it).into())], 1.0));
    all.add(("monitor_own_given_up", "", "Capabilities given up to keep within it", Gauge), shed);
}

fn held(all: &mut Exposition, own: &Own) {
    use Shape::{Counter, Gauge};
    one(
        all,
        ("monitor_own_uptime_seconds", "seconds", "How long it runs", Gauge),
        seconds(own.uptime_ns),
    );
    let connections = "Connections to its socket";
    one(all, ("monitor_own_connections", "", connections, Gauge), own.connections as f64);
    one(all, ("monitor_own_monitors", "", "Monitors", Gauge), own.monitors as f64);
    let queue = ("monitor_own_queue_bytes", "bytes", "Bytes that wait to be sent", Gauge);
    one(all, queue, own.queue_bytes as f64);
    one(all, ("monitor_own_readings", "", "Readings", Counter), own.readings as f64);
    one(all, ("monitor_own_samples", "", "Samples given", Counter), own.samples as f64);
    let dropped = "Samples dropped because their reader was too slow";
    one(all, ("monitor_own_dropped_samples", "", dropped, Counter), own.dropped as f64);
    let refused = "Calls and connections refused";
    all.add(("monitor_own_refused", "", refused, Counter), counts(&own.refused, "kind"));
}

fn counts<'a>(
    counts: &'a BTreeMap<String, u64>,
    label: &'static str,
) -> impl Iterator<Item = (Labels, f64)> + 'a {
    counts.iter().map(move |(kind, n)| (vec![(label, (&**kind).into())], *n as f64))
}

/// One point for each capability, with how it is served as a label.
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
    let help = "How each capability is served: active, fallback, inexact, unsupported, failed, off";
    all.add(("monitor_probe_health", "", help, Shape::Gauge), probes.iter().map(of));
}

/// What each that is attached has seen, lost and cost.
fn probed(all: &mut Exposition, probes: &[Probe]) {
    let label = |it: &Probe| vec![("capability", it.capability.name().into())];
    let attached = || probes.iter().filter(|it| !it.hooks.is_empty() && it.with.is_none());
    let each = |of: fn(&Probe) -> f64| attached().map(move |it| (label(it), of(it)));
    let (events, lost) = ("Events since it was attached", "Records lost since it was attached");
    all.add(("monitor_probe_events", "", events, Shape::Counter), each(|it| it.events as f64));
    all.add(("monitor_probe_lost_records", "", lost, Shape::Counter), each(|it| it.lost as f64));
    let maps = ("monitor_probe_map_bytes", "bytes", "Memory of its maps", Shape::Gauge);
    all.add(maps, each(|it| it.map_bytes as f64));
    let known = attached().filter_map(|it| {
        let cost = it.cost?;
        let measured = if cost.estimated { "no" } else { "yes" };
        let labels = label(it).into_iter().chain([("measured", measured.into())]);
        Some((labels.collect(), cost.ns_per_event / 1e9))
    });
    let cost = "Run time of its programs for each event";
    all.add(("monitor_probe_event_cost_seconds", "seconds", cost, Shape::Gauge), known);
}

fn listener(all: &mut Exposition, http: &Http) {
    use Shape::{Counter, Gauge};
    let connections = ("monitor_http_connections", "", "Connections to this listener", Gauge);
    one(all, connections, http.connections as f64);
    one(all, ("monitor_http_requests", "", "Requests", Counter), http.requests as f64);
    let refused = "Requests and connections refused, given up or dropped";
    all.add(("monitor_http_refused", "", refused, Counter), counts(&http.refused, "kind"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_format::exposition::{Dialect, text};
    use monitor_model::want::Capability;

    #[test]
    fn what_is_off_has_a_health_and_no_numbers() {
        let mut block = Probe::off(Capability::Block);
        (block.health, block.events) = (Health::Active, 7);
        block.hooks.push("tp_btf/x".into());
        let all = own(&Own::default(), &[block, Probe::off(Capability::Signals)]);
        let mut out = String::new();
        text(&all, Dialect::Prometheus, &mut out);
        let said = |line: &str| assert!(out.lines().any(|it| it == line), "{line} in {out}");
        said(r#"monitor_probe_health{capability="block",health="active"} 1"#);
        said(r#"monitor_probe_health{capability="signals",health="off"} 1"#);
        said(r#"monitor_probe_events_total{capability="block"} 7"#);
        assert!(!out.contains(r#"events_total{capability="signals"#));
    }
}
