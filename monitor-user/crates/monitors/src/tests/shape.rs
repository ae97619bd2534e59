//! Selection of fields: all samples have one structure, and each mistake is named.

use super::fixture::{Fixture, MS, S};
use serde_json::Value;
use std::collections::BTreeSet;

const FIXED: &str = include_str!("../../../backends/src/canned/fixed.txt");

/// The keys of a value and of all inside it, lists counted: `node_stats.disks[2].reads`.
fn keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, it)| keys(it, &format!("{path}.{key}"), into))
        }
        Value::Array(list) => {
            list.iter().for_each(|it| keys(it, &format!("{path}[{}]", list.len()), into));
        }
        _ => drop(into.insert(path.to_owned())),
    }
}

fn shape(event: &Value) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    keys(&event["sample"], "", &mut all);
    all
}

#[test]
fn all_samples_of_a_series_have_the_same_structure() {
    for part in ["proc", "node", "disk", "net", "all"] {
        let mut fixture = Fixture::scripted(FIXED);
        let request = format!(r#"{{"part":"{part}","every_ns":{S}}}"#);
        let first = shape(&fixture.monitor(1, &request));
        let events = fixture.events(1, 3 * S + 50 * MS);
        assert_eq!(events.len(), 3);
        let later: Vec<_> = events.iter().map(shape).collect();
        assert_eq!((&later[0], &later[0]), (&later[1], &later[2]), "{part}");
        // Rates need two samples; all other keys must be the same.
        let more: Vec<_> = later[0].difference(&first).collect();
        let grows = |it: &&String| it.contains("_per_s") || it.ends_with("_percent");
        let interval = |it: &&String| *it == ".interval_ns";
        let other: Vec<_> = more.iter().filter(|it| !grows(it) && !interval(it)).collect();
        assert!(other.is_empty() && first.is_subset(&later[0]), "{part}: {other:?}");
    }
}

#[test]
fn a_node_nests_its_disks_and_interfaces_exactly_one_level() {
    let mut fixture = Fixture::scripted(FIXED);
    let first =
        fixture.monitor(1, r#"{"part":"node","fields":["load1","disk.reads","net.sent_bytes"]}"#);
    let node = &first["sample"]["node_stats"];
    assert_eq!(node["load1"], 0.34);
    assert_eq!(node["disks"][1]["device"], "sdb");
    assert_eq!(node["nets"][2]["interface"], "lo");
    let mut all = BTreeSet::new();
    keys(&first, "", &mut all);
    assert!(all.iter().all(|it| it.matches("node_stats").count() < 2), "{all:?}");
}

#[test]
fn without_fields_a_sample_has_all_and_otherwise_only_the_named_ones() {
    let mut fixture = Fixture::scripted(FIXED);
    let count = |event: Value| event["sample"]["processes"][0].as_object().unwrap().len();
    assert!(count(fixture.monitor(1, "{}")) > 15);
    // The identity of the process is always included.
    assert_eq!(count(fixture.monitor(1, r#"{"fields":["cpu_ns","rss_bytes"]}"#)), 4);
}

#[track_caller]
fn refused(request: &str, status: &str, message: &str) {
    let got = Fixture::scripted(FIXED).monitor(1, request);
    assert_eq!((got["error"].as_str(), got["message"].as_str()), (Some(status), Some(message)));
}

#[test]
fn an_invalid_selection_is_refused_by_name() {
    let empty = "fields: an empty list; leave it out for all fields";
    refused(r#"{"fields":[]}"#, "BAD_PARAM", empty);
    let unknown = r#"unknown field "cpu_nss"; did you mean "cpu_ns"?"#;
    refused(r#"{"fields":["rss_bytes","cpu_nss"]}"#, "BAD_PARAM", unknown);
    let other = r#"{"part":"disk","fields":["cpu_ns"]}"#;
    assert_eq!(Fixture::scripted(FIXED).monitor(1, other)["error"], "BAD_PARAM");
}

#[test]
fn an_unknown_device_is_noted_and_the_others_are_sampled() {
    let mut fixture = Fixture::scripted(FIXED);
    let got = fixture.monitor(1, r#"{"part":"disk","disks":["sdz","sda"],"fields":["reads"]}"#);
    assert_eq!(got["status"], "PARTIAL_SUCCESS");
    assert_eq!(got["sample"]["node_stats"]["disks"].as_array().unwrap().len(), 1);
    assert_eq!(got["sample"]["notes"][0], "no disk sdz: there are sda, sdb");
    let got = fixture.monitor(1, r#"{"part":"net","nets":["eth9","lo"]}"#);
    assert_eq!(got["status"], "PARTIAL_SUCCESS");
    let got = fixture.monitor(1, r#"{"part":"net","nets":["lo"]}"#);
    assert_eq!(got["status"], "SUCCESS");
}

#[test]
fn devices_without_fields_have_all_fields() {
    let got = Fixture::scripted(FIXED).monitor(1, r#"{"part":"disk","disks":["sdb"]}"#);
    let disks = got["sample"]["node_stats"]["disks"].as_array().unwrap();
    assert!(disks.len() == 1 && disks[0].as_object().unwrap().len() > 8, "{disks:?}");
}

#[test]
fn a_sample_has_no_data_that_only_other_monitors_requested() {
    let mut fixture = Fixture::scripted("process 7\nthread 7 8 cpu_ns=1");
    let _all = fixture.monitor(1, &format!(r#"{{"id":"t","threads":true,"every_ns":{S}}}"#));
    let _few = fixture.monitor(2, &format!(r#"{{"id":"f","fields":["cpu_ns"],"every_ns":{S}}}"#));
    let row = |event: &Value| event["sample"]["processes"][0]["thread_list"].is_array();
    assert_eq!(fixture.events(1, S + 50 * MS).iter().map(row).collect::<Vec<_>>(), [true]);
    assert_eq!(fixture.events(2, 2 * S + 50 * MS).iter().map(row).collect::<Vec<_>>(), [false]);
}
