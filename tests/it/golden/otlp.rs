//! Every metric that the service pushes as OTLP: its name, unit and kind, and its attributes.
//!
//! A fake collector accepts one push of a service with the test backend, and one of a service that
//! reads `/proc`. Metrics of sockets and latencies need eBPF and are not covered.

use super::check;
use crate::served::{Served, monitor};
use crate::web::pushed::{Collector, GOOD};
use serde_json::Value;
use std::collections::BTreeSet;

/// The keys of attributes, with the values that do not vary by machine.
fn attributes(list: &Value) -> String {
    const NAMES: [&str; 3] = ["process.command", "host.name", "monitor.version"];
    let attribute = |it: &Value| {
        let (key, value) = (it["key"].as_str().unwrap(), it["value"]["stringValue"].as_str());
        let is_open = NAMES.contains(&key) || key.contains("device") || key.contains("interface");
        match value.filter(|_| !is_open) {
            Some(value) => format!("{key}={value}"),
            None => key.to_owned(),
        }
    };
    list.as_array().into_iter().flatten().map(attribute).collect::<Vec<_>>().join(" ")
}

fn metric(it: &Value) -> String {
    let kinds = ["sum", "gauge", "exponentialHistogram"];
    let (kind, data) = kinds.iter().find_map(|kind| Some((kind, it.get(kind)?))).unwrap();
    let points = data["dataPoints"].as_array().unwrap().iter();
    let points: BTreeSet<_> = points
        .map(|point| {
            let value = ["asInt", "asDouble"].iter().find(|key| point.get(key).is_some());
            let attributes = attributes(&point["attributes"]);
            format!("  {} {attributes}", value.unwrap_or(&"-")).trim_end().to_owned() + "\n"
        })
        .collect();
    let (monotonic, temporality) = (&data["isMonotonic"], &data["aggregationTemporality"]);
    format!(
        "{} unit {} {kind} monotonic {monotonic} temporality {temporality}\n{}",
        it["name"],
        it["unit"],
        points.into_iter().collect::<String>()
    )
}

/// The first push of a service with this backend: its head, and its metrics sorted by name.
fn pushed(backend: &str) -> (String, Vec<String>) {
    let collector = Collector::new();
    let _served = Served::started(&collector.config(), monitor(), backend);
    let (head, body) = collector.take(GOOD);
    let of = &body["resourceMetrics"][0];
    let scope = &of["scopeMetrics"][0];
    let mut metrics: Vec<_> = scope["metrics"].as_array().unwrap().iter().map(metric).collect();
    metrics.sort();
    let line = head.lines().next().unwrap();
    let kind = head.lines().find(|it| it.starts_with("content-type")).unwrap();
    let resource = attributes(&of["resource"]["attributes"]);
    let name = &scope["scope"]["name"];
    (format!("{line}\n{kind}\nresource {resource}\nscope {name}\n"), metrics)
}

#[test]
fn every_pushed_metric_keeps_its_name_and_attributes() {
    let (head, metrics) = pushed("test");
    check("metrics/otlp.txt", &(head + &metrics.concat()));
}

#[test]
fn pushed_metrics_of_processes_keep_the_names_of_the_conventions() {
    let (_, metrics) = pushed("procfs");
    // Without eBPF, socket counters depend on the kernel.
    let is_meant = |it: &&String| it.starts_with("\"process.") && !it.contains("network");
    let metrics: String = metrics.iter().filter(is_meant).map(String::as_str).collect();
    check("metrics/otlp-process.txt", &metrics);
}
