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
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

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

/// Encodes the request body. It is written straight from the families: a tree of values takes ten
/// times the memory of the text, and leaves the heap in pieces.
pub fn otlp(all: &Exposition, of: Resource<'_>) -> Vec<u8> {
    let mut metrics: Vec<Metric<'_>> = Vec::new();
    for family in &all.families {
        let mut metric = Metric::from_family(all, family, of.at);
        match metrics.iter_mut().find(|it| it.name == metric.name) {
            Some(first) if first.kind() == metric.kind() => first.parts.append(&mut metric.parts),
            // A metric has one kind of points, so a family of another kind keeps its own name.
            Some(_) => metrics.push(Metric::with_own_name(all, family, of.at)),
            None => metrics.push(metric),
        }
    }
    let attributes =
        [KeyValue::new("service.name", "monitor"), KeyValue::new("host.name", of.node)];
    let scope = Scope { name: "monitor", version: env!("CARGO_PKG_VERSION") };
    let resource = OtlpResource { attributes };
    let scope_metrics = [ScopeMetrics { metrics, scope }];
    let request = Request { resource_metrics: [ResourceMetrics { resource, scope_metrics }] };
    // It fails for maps whose keys are no strings; there are none.
    serde_json::to_vec(&request).unwrap_or_default()
}

// The messages of the protocol. A reader takes the keys in any order.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    resource_metrics: [ResourceMetrics<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics<'a> {
    resource: OtlpResource<'a>,
    scope_metrics: [ScopeMetrics<'a>; 1],
}

#[derive(Serialize)]
struct OtlpResource<'a> {
    attributes: [KeyValue<'a>; 2],
}

#[derive(Serialize)]
struct ScopeMetrics<'a> {
    metrics: Vec<Metric<'a>>,
    scope: Scope,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct KeyValue<'a> {
    key: Cow<'a, str>,
    value: StringValue<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StringValue<'a> {
    string_value: &'a str,
}

impl<'a> KeyValue<'a> {
    fn new(key: impl Into<Cow<'a, str>>, value: &'a str) -> Self {
        Self { key: key.into(), value: StringValue { string_value: value } }
    }
}

/// A metric of one family, or of several that a convention joins.
struct Metric<'a> {
    name: String,
    unit: &'static str,
    metric_type: MetricType,
    help: &'static str,
    parts: Vec<Points<'a>>,
}

/// The points of a family.
struct Points<'a> {
    all: &'a Exposition,
    family: &'a Family,
    /// An attribute of all its points.
    attribute: Option<(&'static str, &'static str)>,
    at: Ns,
}

impl<'a> Metric<'a> {
    fn from_family(all: &'a Exposition, family: &'a Family, at: Ns) -> Self {
        let stem = family.stem.strip_prefix("monitor_").unwrap_or_default();
        let own = Self::with_own_name(all, family, at);
        match SEMANTIC_NAMES.iter().find(|it| it.0 == stem) {
            Some(&(_, name, unit, key, value)) => {
                let attribute = (!key.is_empty()).then_some((key, value));
                let parts = vec![Points { all, family, attribute, at }];
                Self { name: name.to_owned(), unit, parts, ..own }
            }
            None => own,
        }
    }

    /// The metric of a family without a convention, whose name is that of the family.
    fn with_own_name(all: &'a Exposition, family: &'a Family, at: Ns) -> Self {
        let bare = family.stem.strip_suffix(family.unit).unwrap_or(&family.stem);
        let name = bare.trim_end_matches('_').replacen('_', ".", 2);
        let unit = match family.unit {
            "seconds" => "s",
            "bytes" => "By",
            _ => "1",
        };
        let parts = vec![Points { all, family, attribute: None, at }];
        Self { name, unit, metric_type: family.metric_type, help: family.help, parts }
    }

    const fn kind(&self) -> &'static str {
        match self.metric_type {
            MetricType::Counter => "sum",
            MetricType::Gauge | MetricType::Info => "gauge",
            MetricType::Histogram => "exponentialHistogram",
        }
    }
}

impl Serialize for Metric<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let is_gauge = self.kind() == "gauge";
        let data = MetricPoints {
            // Cumulative.
            aggregation_temporality: (!is_gauge).then_some(2),
            data_points: &self.parts,
            is_monotonic: (self.metric_type == MetricType::Counter).then_some(true),
        };
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("description", self.help)?;
        map.serialize_entry(self.kind(), &data)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("unit", self.unit)?;
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetricPoints<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregation_temporality: Option<u8>,
    #[serde(serialize_with = "points")]
    data_points: &'a [Points<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    is_monotonic: Option<bool>,
}

/// Writes the points of all parts as one list.
fn points<S: Serializer>(parts: &&[Points<'_>], to: S) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(None)?;
    for part in *parts {
        let time = part.at.0.to_string();
        for (index, value) in &part.family.points {
            let attributes = part.attributes(*index);
            let (time_unix_nano, as_double) = (&*time, *value);
            list.serialize_element(&Number { as_double, attributes, time_unix_nano })?;
        }
        for (index, durations) in &part.family.durations {
            list.serialize_element(&exponential(durations, part.attributes(*index), &time))?;
        }
    }
    list.end()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Number<'a> {
    as_double: f64,
    attributes: Vec<KeyValue<'a>>,
    time_unix_nano: &'a str,
}

impl<'a> Points<'a> {
    fn attributes(&self, index: usize) -> Vec<KeyValue<'a>> {
        let labels: &'a Labels = &self.all.labels[index];
        let by = labels.iter().find(|(name, _)| *name == "by").map(|(_, by)| &**by);
        let ours = labels.iter().map(|(name, value)| match (*name, by) {
            ("name", Some("comm")) => KeyValue::new("process.command", value),
            ("name", Some("user")) => KeyValue::new("process.owner", value),
            ("name", Some("cgroup")) => KeyValue::new("process.linux.cgroup", value),
            (name, _) => match ATTRIBUTES.iter().find(|it| it.0 == name) {
                Some((_, known)) => KeyValue::new(*known, value),
                None => KeyValue::new(format!("monitor.{name}"), value),
            },
        });
        ours.chain(self.attribute.map(|(key, value)| KeyValue::new(key, value))).collect()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Exponential<'a> {
    attributes: Vec<KeyValue<'a>>,
    count: String,
    positive: Buckets,
    scale: i32,
    sum: f64,
    time_unix_nano: &'a str,
    zero_count: String,
    zero_threshold: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Buckets {
    bucket_counts: Vec<String>,
    offset: i32,
}

/// A histogram; gaps between the first and the last bucket are zeros.
fn exponential<'a>(
    of: &Histogram,
    attributes: Vec<KeyValue<'a>>,
    time_unix_nano: &'a str,
) -> Exponential<'a> {
    let (zero, zero_threshold, buckets) = native_buckets(of);
    let first = buckets.first().map_or(0, |it| it.0);
    let mut bucket_counts = Vec::new();
    for (index, count) in buckets {
        let gap = usize::try_from(index - first).unwrap_or(0);
        bucket_counts.resize(gap, "0".to_owned());
        bucket_counts.push(count.to_string());
    }
    Exponential {
        attributes,
        count: of.count().to_string(),
        // Prometheus indexes a bucket by its upper bound, OTLP by its lower one.
        positive: Buckets { bucket_counts, offset: first - 1 },
        scale: SCHEMA,
        sum: of.sum().seconds(),
        time_unix_nano,
        zero_count: zero.to_string(),
        zero_threshold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn attribute(key: &str, value: &str) -> Value {
        json!({"key": key, "value": {"stringValue": value}})
    }

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
        let want =
            json!([attribute("system.device", "sda"), attribute("disk.io.direction", "write")]);
        assert_eq!((&points[1]["asDouble"], &points[1]["attributes"]), (&json!(4.0), &want));
    }

    #[test]
    fn a_family_of_another_kind_than_its_conventional_metric_keeps_its_name() {
        let mut all = Exposition::default();
        let disk = || vec![("device", "sda".into())];
        all.add(("monitor_disk_reads", "", "Reads", MetricType::Counter), [(disk(), 3.0)]);
        all.add(("monitor_disk_writes", "", "Writes", MetricType::Gauge), [(disk(), 4.0)]);
        let body = body(&all);
        let metrics = &body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert_eq!(metrics[0]["name"], "system.disk.operations");
        assert_eq!(metrics[1]["name"], "monitor.disk.writes");
        assert_eq!(metrics[1]["gauge"]["dataPoints"][0]["asDouble"], 4.0);
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
        let point = json!(exponential(&durations, Vec::new(), "7"));
        assert_eq!(point["positive"]["offset"], 0);
        let counts = ["1", "0", "0", "0", "0", "0", "0", "0", "1"];
        assert_eq!(point["positive"]["bucketCounts"], json!(counts));
    }
}
