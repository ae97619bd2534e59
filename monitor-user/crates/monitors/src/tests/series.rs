//! Single samples and series: receivers, times, and the number of readings.

use super::fixture::{ClientOutput, Fixture, MS, S};
use crate::{MonitorInput, monitor::SLACK};
use serde_json::{Value, json};

const WORLD: &str = "process 7 cpu_ns/s=250ms rss_bytes=4096\nprocess 8\nnode load1=1";

fn every(id: &str, ns: u64) -> String {
    format!(r#"{{"id":"{id}","fields":["cpu_ns"],"every_ns":{ns}}}"#)
}

#[test]
fn a_single_sample_is_the_reply_and_ends_the_monitor() {
    let mut fixture = Fixture::scripted(WORLD);
    let got = fixture.monitor(1, r#"{"fields":["cpu_ns"]}"#);
    assert_eq!((&got["status"], &got["seq"]), (&json!("SUCCESS"), &json!(0)));
    assert!(fixture.engine.is_empty());
    assert_eq!((fixture.engine.due(), fixture.at(9 * S)), (None, vec![]));
}

#[test]
fn the_first_sample_is_the_reply_and_later_ones_go_to_the_requestor_only() {
    let mut fixture = Fixture::scripted(WORLD);
    let request = format!(r#"{{"id":"a","fields":["cpu_ns"],"every_ns":{S},"code":-114}}"#);
    let first = fixture.monitor(1, &request);
    let outputs = fixture.at(2 * S + 50 * MS);
    let mut expected = vec![first];
    for outputs in outputs {
        let ClientOutput::Event(1, event) = outputs else {
            panic!("unexpected output: {outputs:?}")
        };
        expected.push(event);
    }
    for (seq, event) in expected.iter().enumerate() {
        let key = |key: &str| event[key].clone();
        assert_eq!([key("id"), key("seq"), key("period_ns")], [json!("a"), json!(seq), json!(S)]);
        assert_eq!([key("missed"), key("node")], [json!(0), json!("node7")]);
        assert_eq!(key("code"), -114);
        assert!(key("time_unix_ns").as_u64().unwrap() > 0);
    }
    assert_eq!(expected.len(), 3);
    assert_eq!(expected[2]["sample"]["processes"][0]["cpu_ns"], 500_000_000);
}

#[test]
fn a_count_ends_the_series_with_its_reason() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(1, &format!(r#"{{"every_ns":{S},"count":3}}"#));
    let ended: Vec<_> = fixture.events(1, 9 * S).iter().map(|it| it["ended"].clone()).collect();
    assert_eq!(ended, [Value::Null, json!("count")]);
    assert!(fixture.engine.is_empty());
}

#[test]
fn ticks_do_not_drift_however_late_each_one_is() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(1, &every("a", 100 * MS));
    for tick in 1..20 {
        // Each is as late as allowed, a twentieth of its period.
        let at = tick * 100 * MS + 5 * MS;
        fixture.now = at;
        fixture.input(MonitorInput::Tick);
        let events = fixture.events(1, at);
        assert_eq!(events.len(), 1, "tick {tick}");
        assert_eq!((&events[0]["late_ns"], &events[0]["missed"]), (&json!(5 * MS), &json!(0)));
    }
}

#[test]
fn late_ticks_are_counted_and_never_queued() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(1, &every("a", S));
    fixture.slow = true;
    assert_eq!(fixture.at(S + SLACK.0), []);
    assert_eq!(fixture.at(4 * S + S / 2), []);
    fixture.slow = false;
    let outputs = fixture.end_reading();
    let [ClientOutput::Event(1, event)] = outputs.as_slice() else {
        panic!("one event: {outputs:?}")
    };
    assert_eq!((&event["seq"], &event["missed"]), (&json!(1), &json!(3)));
    assert_eq!(event["late_ns"], 3 * S + S / 2);
    // The next is on time.
    let next = fixture.events(1, 5 * S + SLACK.0);
    assert_eq!((next.len(), &next[0]["seq"], &next[0]["missed"]), (1, &json!(2), &json!(3)));
}

#[test]
fn ten_monitors_at_the_same_rate_cost_one_reading() {
    let mut fixture = Fixture::scripted(WORLD);
    for monitor in 0..10 {
        let conn = 1 + monitor % 4;
        let _first = fixture.monitor(conn, &every(&format!("m{monitor}"), S));
    }
    let before = fixture.backend_calls().read_specs.len();
    assert_eq!(fixture.at(10 * S + 50 * MS).len(), 100);
    assert_eq!(fixture.backend_calls().read_specs.len() - before, 10);
}

#[test]
fn monitors_with_close_ticks_share_a_reading() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(1, &every("a", S));
    fixture.at(3 * MS);
    let _first = fixture.monitor(2, &every("b", S));
    let before = fixture.backend_calls().read_specs.len();
    let outputs = fixture.at(S + 10 * MS);
    assert_eq!((outputs.len(), fixture.backend_calls().read_specs.len() - before), (2, 1));
}

#[test]
fn different_periods_are_kept_apart() {
    let mut fixture = Fixture::scripted(WORLD);
    let _fast = fixture.monitor(1, &every("fast", 100 * MS));
    let _slow = fixture.monitor(1, &every("slow", S));
    let events = fixture.events(1, S + 50 * MS);
    let of = |id: &str| events.iter().filter(|it| it["id"] == id).count();
    assert_eq!((of("fast"), of("slow")), (10, 1));
}

#[test]
fn the_minimum_interval_is_a_named_limit() {
    let mut fixture = Fixture::scripted(WORLD);
    let got = fixture.monitor(1, &every("a", 9 * MS));
    assert_eq!(got["error"], "OUT_OF_RESOURCE");
    assert_eq!(got["message"], r#"every_ns: the shortest is 10 ms, the limit "period""#);
    let costly = format!(r#"{{"fields":["pss_bytes"],"every_ns":{}}}"#, 99 * MS);
    let got = fixture.monitor(1, &costly);
    assert_eq!(got["message"], r#"every_ns: the shortest is 100 ms, the limit "costly_period""#);
}
