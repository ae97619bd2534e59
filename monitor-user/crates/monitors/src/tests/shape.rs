//! Categories and selection: one form for every sample, and each mistake has its name.

use super::scene::{MS, S, Scene};
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
fn the_first_sample_and_all_later_ones_have_the_same_shape() {
    for part in ["proc", "node", "disk", "net", "all"] {
        let mut scene = Scene::of(FIXED);
        let request = format!(r#"{{"part":"{part}","every_ns":{S}}}"#);
        let first = shape(&scene.monitor(1, &request));
        let events = scene.events(1, 3 * S + 50 * MS);
        assert_eq!(events.len(), 3);
        let later: Vec<_> = events.iter().map(shape).collect();
        assert_eq!((&later[0], &later[0]), (&later[1], &later[2]), "{part}");
        // What grows needs two samples; nothing else may be in one and not in the other.
        let more: Vec<_> = later[0].difference(&first).collect();
        let grows = |it: &&String| it.contains("_per_s") || it.ends_with("_percent");
        let interval = |it: &&String| *it == ".interval_ns";
        let other: Vec<_> = more.iter().filter(|it| !grows(it) && !interval(it)).collect();
        assert!(other.is_empty() && first.is_subset(&later[0]), "{part}: {other:?}");
    }
}

#[test]
fn a_node_nests_its_disks_and_interfaces_exactly_one_level() {
    let mut scene = Scene::of(FIXED);
    let first =
        scene.monitor(1, r#"{"part":"node","fields":["load1","disk.reads","net.sent_bytes"]}"#);
    let node = &first["sample"]["node_stats"];
    assert_eq!(node["load1"], 0.34);
    assert_eq!(node["disks"][1]["device"], "sdb");
    assert_eq!(node["nets"][2]["interface"], "lo");
    let mut all = BTreeSet::new();
    keys(&first, "", &mut all);
    assert!(all.iter().all(|it| it.matches("node_stats").count() < 2), "{all:?}");
}

#[test]
fn absent_fields_are_all_and_named_ones_are_those_alone() {
    let mut scene = Scene::of(FIXED);
    let count = |event: Value| event["sample"]["processes"][0].as_object().unwrap().len();
    assert!(count(scene.monitor(1, "{}")) > 15);
    // What names the process is always there.
    assert_eq!(count(scene.monitor(1, r#"{"fields":["cpu_ns","rss_bytes"]}"#)), 4);
}

#[track_caller]
fn refused(request: &str, status: &str, message: &str) {
    let got = Scene::of(FIXED).monitor(1, request);
    assert_eq!((got["error"].as_str(), got["message"].as_str()), (Some(status), Some(message)));
}

#[test]
fn what_cannot_be_selected_is_refused_by_name() {
    let empty = "fields: an empty list; leave it out for all fields";
    refused(r#"{"fields":[]}"#, "BAD_PARAM", empty);
    let unknown = r#"unknown field "cpu_nss"; did you mean "cpu_ns"?"#;
    refused(r#"{"fields":["rss_bytes","cpu_nss"]}"#, "BAD_PARAM", unknown);
    let other = r#"{"part":"disk","fields":["cpu_ns"]}"#;
    assert_eq!(Scene::of(FIXED).monitor(1, other)["error"], "BAD_PARAM");
}

#[test]
fn an_unknown_device_is_told_and_the_others_are_given() {
    let mut scene = Scene::of(FIXED);
    let got = scene.monitor(1, r#"{"part":"disk","disks":["sdz","sda"],"fields":["reads"]}"#);
    assert_eq!(got["status"], "PARTIAL_SUCCESS");
    assert_eq!(got["sample"]["node_stats"]["disks"].as_array().unwrap().len(), 1);
    assert_eq!(got["sample"]["notes"][0], "no disk sdz: there are sda, sdb");
    let got = scene.monitor(1, r#"{"part":"net","nets":["eth9","lo"]}"#);
    assert_eq!(got["status"], "PARTIAL_SUCCESS");
    let got = scene.monitor(1, r#"{"part":"net","nets":["lo"]}"#);
    assert_eq!(got["status"], "SUCCESS");
}

#[test]
fn names_of_devices_alone_give_all_their_fields() {
    let got = Scene::of(FIXED).monitor(1, r#"{"part":"disk","disks":["sdb"]}"#);
    let disks = got["sample"]["node_stats"]["disks"].as_array().unwrap();
    assert!(disks.len() == 1 && disks[0].as_object().unwrap().len() > 8, "{disks:?}");
}

#[test]
fn what_others_asked_for_is_not_in_ones_own_sample() {
    let mut scene = Scene::of("process 7\nthread 7 8 cpu_ns=1");
    let _all = scene.monitor(1, &format!(r#"{{"id":"t","threads":true,"every_ns":{S}}}"#));
    let _few = scene.monitor(2, &format!(r#"{{"id":"f","fields":["cpu_ns"],"every_ns":{S}}}"#));
    let row = |event: &Value| event["sample"]["processes"][0]["thread_list"].is_array();
    assert_eq!(scene.events(1, S + 50 * MS).iter().map(row).collect::<Vec<_>>(), [true]);
    assert_eq!(scene.events(2, 2 * S + 50 * MS).iter().map(row).collect::<Vec<_>>(), [false]);
}
