//! A report as one JSON object: all entries, exact integers, unknown values absent.

use super::input::{ReportInput, length, percent};
use crate::cli::exit::Failure;
use crate::cli::output;
use monitor_model::field::Category;
use monitor_sampling::usage_report::{USAGE_COUNTERS, UsageEntry, UsageQuantiles};
use serde_json::{Map, Value, json};

/// Incremented by changes that old readers would misinterpret.
const SCHEMA_VERSION: u32 = 1;

/// Formats the object as one line.
pub fn json(input: &ReportInput<'_>) -> Result<String, Failure> {
    let (ledger, header) = (input.ledger, input.header);
    let (first, last, samples) = ledger.span().unwrap_or_default();
    let entries: Vec<_> = ledger.entries().iter().map(|(_, it)| entry(it, input)).collect();
    let brief = ledger.short_lived().into_iter().map(
        |(name, it)| json!({ "name": &**name, "processes": it.processes, "cpu_ns": it.cpu.0 }),
    );
    let report = json!({
        "schema_version": SCHEMA_VERSION,
        "node": header.node,
        "backend": header.backend,
        "processors": header.processors,
        "from_unix_ns": first.unix.0,
        "to_unix_ns": last.unix.0,
        "length_ns": length(ledger).0,
        "samples": samples,
        "by": input.by.name(),
        "total": entry(ledger.total(), input),
        "entries": entries,
        "not_listed": ledger.unlisted(),
        "brief": brief.collect::<Vec<_>>(),
        "notes": input.notes,
    });
    output::json(&report)
}

fn entry(it: &UsageEntry, input: &ReportInput<'_>) -> Value {
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| drop(map.insert(name.to_owned(), value));
    put("name", json!(&*it.name));
    if let Some(id) = it.id {
        put("pid", json!(id.pid.0));
        put("start_time_ns", json!(id.start.0));
    }
    for (name, text) in [("user", &it.user), ("job", &it.job), ("cmdline", &it.cmdline)] {
        text.iter().for_each(|text| put(name, json!(&**text)));
    }
    put("first_unix_ns", json!(it.first.unix.0));
    put("last_unix_ns", json!(it.last.unix.0));
    put("samples", json!(it.samples));
    put("processes", json!(it.processes));
    put("ended", json!(it.ended));
    for field in USAGE_COUNTERS {
        it.used(field).into_iter().for_each(|used| put(field.field().name, json!(used)));
    }
    if let Some(mean) = input.cpu_percent(it) {
        put("cpu_percent_mean", json!((mean * 1e3).round() / 1e3));
    }
    for (name, value) in percentiles("cpu_percent", "", &it.cpu) {
        put(&name, json!(percent(value)));
    }
    for (name, kib) in percentiles("rss", "_bytes", &it.resident) {
        put(&name, json!(kib << 10));
    }
    Value::Object(map)
}

fn percentiles(
    before: &str,
    after: &str,
    of: &UsageQuantiles,
) -> impl Iterator<Item = (String, u64)> {
    let values = [
        ("p50", of.percentile(50.0)),
        ("p95", of.percentile(95.0)),
        ("p99", of.percentile(99.0)),
        ("max", of.largest()),
    ];
    let named =
        move |(name, value): (&str, Option<u64>)| Some((format!("{before}_{name}{after}"), value?));
    values.into_iter().filter_map(named).collect::<Vec<_>>().into_iter()
}
