//! Families as OTLP metrics in JSON. Names follow OpenTelemetry's semantic conventions where one
//! exists, else they begin with `monitor.`.
//!
//! In: families, node and time. Out: the body of a POST to `/v1/metrics`. Families that a
//! convention defines as one metric (bytes read and written of a disk) become points of that
//! metric. Points have no start time: the processes of a group have different ones.
//! Encoding: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding

use super::families::{Exposition, Family, Labels, MetricType};
use super::protobuf::{SCHEMA, native_buckets};
use monitor_model::{Histogram, Ns};
use serde_json::{Value, json};

/// The resource that the metrics describe, and their time.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// The node.
    pub node: &'a str,
    /// Time of the reading, on the realtime clock.
    pub at: Ns,
}

/// A family and its semantic convention: metric, unit, attribute and its value.
type SemanticName = (&'static str, &'static str, &'static str, &'static str, &'static str);

// Attributes, and a metric.
const CPU_MODE: &str = "cpu.mode";
const DISK: &str = "disk.io.direction";
const NETWORK: &str = "network.io.direction";
const SWITCHES: &str = "process.context_switches";
const SWITCH: &str = "process.context_switch.type";
const FAULT: &str = "system.paging.fault.type";
const MEMORY: &str = "system.memory.state";

/// Families without their `monitor_`.
/// https://opentelemetry.io/docs/specs/semconv/system/ as of 2026-08.
const SEMANTIC_NAMES: &[SemanticName] = &[
    ("group_user_seconds", "process.cpu.time", "s", CPU_MODE, "user"),
    ("group_system_seconds", "process.cpu.time", "s", CPU_MODE, "system"),
    ("group_run_delay_seconds", "process.cpu.time", "s", CPU_MODE, "wait"),
    ("group_rss_bytes", "process.memory.usage", "By", "", ""),
    ("group_vsize_bytes", "process.memory.virtual", "By", "", ""),
    ("group_read_bytes", "process.disk.io", "By", DISK, "read"),
    ("group_written_bytes", "process.disk.io", "By", DISK, "write"),
    ("group_tcp_sent_bytes", "process.network.io", "By", NETWORK, "transmit"),
    ("group_tcp_received_bytes", "process.network.io", "By", NETWORK, "receive"),
    ("group_threads", "process.thread.count", "{thread}", "", ""),
    ("group_voluntary_switches", SWITCHES, "{context_switch}", SWITCH, "voluntary"),
    ("group_involuntary_switches", SWITCHES, "{context_switch}", SWITCH, "involuntary"),
    ("group_minor_faults", "process.paging.faults", "{fault}", FAULT, "minor"),
    ("group_major_faults", "process.paging.faults", "{fault}", FAULT, "major"),
    ("node_uptime_seconds", "system.uptime", "s", "", ""),
    ("node_mem_total_bytes", "system.memory.limit", "By", "", ""),
    ("node_mem_free_bytes", "system.memory.usage", "By", MEMORY, "free"),
    ("node_mem_buffers_bytes", "system.memory.usage", "By", MEMORY, "buffers"),
    ("node_mem_cached_bytes", "system.memory.usage", "By", MEMORY, "cached"),
    ("node_processes_created", "system.process.created", "{process}", "", ""),
    ("cpu_user_seconds", "system.cpu.time", "s", CPU_MODE, "user"),
    ("cpu_nice_seconds", "system.cpu.time", "s", CPU_MODE, "nice"),
    ("cpu_system_seconds", "system.cpu.time", "s", CPU_MODE, "system"),
    ("cpu_idle_seconds", "system.cpu.time", "s", CPU_MODE, "idle"),
    ("cpu_iowait_seconds", "system.cpu.time", "s", CPU_MODE, "iowait"),
    ("cpu_irq_seconds", "system.cpu.time", "s", CPU_MODE, "interrupt"),
    ("cpu_softirq_seconds", "system.cpu.time", "s", CPU_MODE, "softirq"),
    ("cpu_steal_seconds", "system.cpu.time", "s", CPU_MODE, "steal"),
    ("disk_read_bytes", "system.disk.io", "By", DISK, "read"),
    ("disk_written_bytes", "system.disk.io", "By", DISK, "write"),
    ("disk_reads", "system.disk.operations", "{operation}", DISK, "read"),
    ("disk_writes", "system.disk.operations", "{operation}", DISK, "write"),
    ("disk_io_seconds", "system.disk.io_time", "s", "", ""),
    ("net_sent_bytes", "system.network.io", "By", NETWORK, "transmit"),
    ("net_received_bytes", "system.network.io", "By", NETWORK, "receive"),
    ("net_sent_packets", "system.network.packet.count", "{packet}", NETWORK, "transmit"),
    ("net_received_packets", "system.network.packet.count", "{packet}", NETWORK, "receive"),
];

/// The attribute names of labels.
const ATTRIBUTES: [(&str, &str); 4] = [
    ("cpu", "cpu.logical_number"),
    ("device", "system.device"),
    ("interface", "network.interface.name"),
    ("name", "monitor.group.name"),
];

/// Encodes the request body.
pub fn otlp(all: &Exposition, of: Resource<'_>) -> Vec<u8> {
    let mut metrics: Vec<(String, Value)> = Vec::new();
    for family in &all.families {
        let metric = Metric::from_family(family);
        let mut points = metric.points(all, of.at);
        match metrics.iter_mut().find(|(name, _)| *name == metric.name) {
            Some((_, existing)) => {
                if let Value::Array(all) = &mut existing[metric.kind()]["dataPoints"] {
                    all.append(&mut points);
                }
            }
            None => metrics.push((metric.name.clone(), metric.json(points))),
        }
    }
    let metrics: Vec<_> = metrics.into_iter().map(|(_, it)| it).collect();
    let attributes =
        [string_attribute("service.name", "monitor"), string_attribute("host.name", of.node)];
    let scope = json!({"name": "monitor", "version": env!("CARGO_PKG_VERSION")});
    let scoped = json!([{"scope": scope, "metrics": metrics}]);
    let resource = json!({"resource": {"attributes": attributes}, "scopeMetrics": scoped});
    json!({"resourceMetrics": [resource]}).to_string().into_bytes()
}

/// A family as a metric.
struct Metric<'a> {
    family: &'a Family,
    name: String,
    unit: &'static str,
    /// An attribute of all its points.
    attribute: Option<(&'static str, &'static str)>,
}

impl<'a> Metric<'a> {
    fn from_family(family: &'a Family) -> Self {
        let stem = family.stem.strip_prefix("monitor_").unwrap_or_default();
        match SEMANTIC_NAMES.iter().find(|it| it.0 == stem) {
            Some(&(_, name, unit, key, value)) => {
                let attribute = (!key.is_empty()).then_some((key, value));
                Self { family, name: name.into(), unit, attribute }
            }
            None => {
                let bare = family.stem.strip_suffix(family.unit).unwrap_or(&family.stem);
                let name = bare.trim_end_matches('_').replacen('_', ".", 2);
                let unit = match family.unit {
                    "seconds" => "s",
                    "bytes" => "By",
                    _ => "1",
                };
                Self { family, name, unit, attribute: None }
            }
        }
    }

    const fn kind(&self) -> &'static str {
        match self.family.metric_type {
            MetricType::Counter => "sum",
            MetricType::Gauge | MetricType::Info => "gauge",
            MetricType::Histogram => "exponentialHistogram",
        }
    }

    fn json(&self, points: Vec<Value>) -> Value {
        let mut of_kind = json!({"dataPoints": points});
        if self.kind() != "gauge" {
            // Cumulative.
            of_kind["aggregationTemporality"] = json!(2);
        }
        if self.family.metric_type == MetricType::Counter {
            of_kind["isMonotonic"] = json!(true);
        }
        let (name, unit, help) = (&self.name, self.unit, self.family.help);
        json!({"name": name, "unit": unit, "description": help, self.kind(): of_kind})
    }

    fn points(&self, all: &Exposition, at: Ns) -> Vec<Value> {
        let time = at.0.to_string();
        let numbers = self.family.points.iter().map(|&(index, value)| {
            let attributes = self.attributes(&all.labels[index]);
            json!({"attributes": attributes, "timeUnixNano": time, "asDouble": value})
        });
        let durations = self.family.durations.iter().map(|(index, it)| {
            let mut point = exponential(it);
            point["attributes"] = json!(self.attributes(&all.labels[*index]));
            point["timeUnixNano"] = json!(time);
            point
        });
        numbers.chain(durations).collect()
    }

    fn attributes(&self, labels: &Labels) -> Vec<Value> {
        let by = labels.iter().find(|(name, _)| *name == "by").map(|(_, by)| &**by);
        let ours = labels.iter().map(|(name, value)| match (*name, by) {
            ("name", Some("comm")) => string_attribute("process.command", value),
            ("name", Some("user")) => string_attribute("process.owner", value),
            ("name", Some("cgroup")) => string_attribute("process.linux.cgroup", value),
            (name, _) => match ATTRIBUTES.iter().find(|it| it.0 == name) {
                Some((_, known)) => string_attribute(known, value),
                None => string_attribute(&format!("monitor.{name}"), value),
            },
        });
        ours.chain(self.attribute.map(|(key, value)| string_attribute(key, value))).collect()
    }
}

/// Encodes a histogram; gaps between the first and the last bucket are zeros.
fn exponential(of: &Histogram) -> Value {
    let (zero, threshold, buckets) = native_buckets(of);
    let first = buckets.first().map_or(0, |it| it.0);
    let mut counts = Vec::new();
    for (index, count) in buckets {
        let gap = usize::try_from(index - first).unwrap_or(0);
        counts.resize(gap, "0".to_owned());
        counts.push(count.to_string());
    }
    json!({
        "count": of.count().to_string(),
        "sum": of.sum().seconds(),
        "scale": SCHEMA,
        "zeroCount": zero.to_string(),
        "zeroThreshold": threshold,
        // Prometheus indexes a bucket by its upper bound, OTLP by its lower one.
        "positive": {"offset": first - 1, "bucketCounts": counts},
    })
}

fn string_attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(all: &Exposition) -> Value {
        let of = Resource { node: "n1", at: Ns(7) };
        serde_json::from_slice(&otlp(all, of)).expect("JSON")
    }

    #[test]
    fn families_of_one_conventional_metric_are_merged() {
        let mut all = Exposition::default();
        let disk = || vec![("device", "sda".into())];
        all.add(("monitor_disk_reads", "", "Reads", MetricType::Counter), [(disk(), 3.0)]);
        all.add(("monitor_disk_writes", "", "Writes", MetricType::Counter), [(disk(), 4.0)]);
        let body = body(&all);
        let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert_eq!(metrics.as_array().map(Vec::len), Some(1));
        assert_eq!(metrics[0]["name"], "system.disk.operations");
        let points = &metrics[0]["sum"]["dataPoints"];
        let want = json!([
            string_attribute("system.device", "sda"),
            string_attribute("disk.io.direction", "write")
        ]);
        assert_eq!((&points[1]["asDouble"], &points[1]["attributes"]), (&json!(4.0), &want));
    }

    #[test]
    fn a_family_without_a_convention_keeps_its_name() {
        let mut all = Exposition::default();
        let head = ("monitor_node_psi_io_full_seconds", "seconds", "x", MetricType::Counter);
        all.add(head, [(Labels::new(), 1.0)]);
        let metric = &body(&all)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0];
        assert_eq!(
            (&metric["name"], &metric["unit"]),
            (&json!("monitor.node.psi_io_full"), &json!("s"))
        );
    }

    #[test]
    fn a_gap_between_buckets_is_encoded_as_zeros() {
        let mut durations = Histogram::default();
        [1_000_000_000, 2_000_000_000].into_iter().for_each(|ns| durations.record(Ns(ns)));
        let point = exponential(&durations);
        assert_eq!(point["positive"]["offset"], 0);
        let counts = ["1", "0", "0", "0", "0", "0", "0", "0", "1"];
        assert_eq!(point["positive"]["bucketCounts"], json!(counts));
    }
}
