//! Every metric by its name, its type and the names of its labels, in each text form.
//!
//! The committed recording has every field, so its replay has every metric of a field; a service
//! adds metrics about itself. Histograms need eBPF: `web/collector.rs` tests them.

use super::{check, golden, printed_with, program};
use crate::deadline::until;
use crate::web::get::Web;
use std::collections::{BTreeMap, BTreeSet};

/// Labels whose values are frozen too.
const SHOWN: [&str; 4] = ["capability", "cause", "health", "result"];

/// The names of the labels between braces, with the values of those in [`SHOWN`].
fn labels(text: &str) -> String {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut escaped = false;
        let end = after.find(|it: char| {
            let ends = it == '"' && !escaped;
            escaped = it == '\\' && !escaped;
            ends
        });
        let (value, after) = after.split_at(end.expect("a value ends"));
        names.push(match SHOWN.contains(&name) {
            true => format!("{name}={value}"),
            false => name.to_owned(),
        });
        rest = after.trim_start_matches(['"', ',']);
    }
    names.join(",")
}

/// A line for each metric: its name, its labels, and the type of its family.
fn names(text: &str) -> String {
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut units: BTreeSet<&str> = BTreeSet::new();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' ')) {
            let _none = types.insert(name, kind);
        } else if let Some(unit) = line.strip_prefix("# UNIT ") {
            let _new = units.insert(unit);
        } else if !line.starts_with('#') && !line.is_empty() {
            let (metric, _value) = line.rsplit_once(' ').unwrap();
            let (name, rest) = metric.split_once('{').unwrap_or((metric, ""));
            // In OpenMetrics a family has no suffix of its type; its samples have.
            let ends = ["", "_total", "_info", "_bucket", "_sum", "_count"];
            let kind = ends.iter().find_map(|end| types.get(name.strip_suffix(end)?));
            let _new = found.insert(format!("{name}{{{}}}  {}", labels(rest), kind.unwrap()));
        }
    }
    let metrics = found.iter().map(|line| format!("{line}\n"));
    let units = units.iter().map(|it| format!("unit {it}\n"));
    metrics.chain(units).collect()
}

#[test]
fn every_field_keeps_its_metric() {
    let tiny = golden("recording/tiny.mon");
    let replay = |words: &[&str]| {
        let all = [&["replay", tiny.to_str().unwrap(), "--format", "prometheus"], words];
        // Exit code 4: the recording has a note about something missing.
        names(&printed_with(4, program(&all.concat())))
    };
    let fields = "tid,job,pss_bytes,exit_code,user,pid,comm,rss_bytes";
    let mut out = format!("all\n{}", replay(&["all"]));
    out += &format!("--fields {fields}\n{}", replay(&["--fields", fields]));
    out += &format!("--group-by comm\n{}", replay(&["--group-by", "comm"]));
    check("metrics/fields.txt", &out);
}

/// A service that has refused a call and an HTTP request, and failed to push.
fn troubled() -> Web {
    // No process listens on the discard port.
    let otlp = "[otlp]\nendpoint = \"http://127.0.0.1:9\"\nevery = \"50ms\"\n";
    let web = Web::with(otlp);
    let _why = web.served.connect().refusal("monitor", "{\"every_ns\":1}");
    assert_eq!(
        web.send("GET / HTTP/1.1\r\nHost: elsewhere\r\nConnection: close\r\n\r\n").status,
        421
    );
    until(|| web.served.status()["otlp"]["failed"].as_u64().filter(|it| *it > 0));
    web
}

#[test]
fn a_service_keeps_its_metrics_as_text_and_as_openmetrics() {
    let web = troubled();
    let get = |accept: &str| {
        let answer = web.get("/metrics", &[&web.token(), accept]);
        assert_eq!(answer.status, 200);
        names(answer.text())
    };
    let text = get("Accept: text/plain");
    let open = get("Accept: application/openmetrics-text;version=1.0.0");
    check("metrics/service.txt", &format!("text\n{text}openmetrics\n{open}"));
}

#[test]
fn label_values_may_contain_escapes() {
    let text = "# TYPE a counter\na_total{x=\"1\\\"2,\",cause=\"full\"} 3\n";
    assert_eq!(names(text), "a_total{x,cause=full}  counter\n");
}
