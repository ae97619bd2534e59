//! Once, or again and again: who is told, when, and what it costs.

use super::scene::{MS, S, Scene, Told};
use crate::Input;
use crate::monitor::SLACK;
use serde_json::{Value, json};

const WORLD: &str = "process 7 cpu_ns/s=250ms rss_bytes=4096\nprocess 8\nnode load1=1";

fn every(id: &str, ns: u64) -> String {
    format!(r#"{{"id":"{id}","fields":["cpu_ns"],"every_ns":{ns}}}"#)
}

#[test]
fn one_shot_answers_at_once_and_is_over() {
    let mut scene = Scene::of(WORLD);
    let got = scene.monitor(1, r#"{"fields":["cpu_ns"]}"#);
    assert_eq!((&got["status"], &got["seq"]), (&json!("SUCCESS"), &json!(0)));
    assert!(scene.engine.is_empty());
    assert_eq!((scene.engine.due(), scene.at(9 * S)), (None, vec![]));
}

#[test]
fn the_first_is_the_reply_and_every_later_one_is_told_to_the_requestor_alone() {
    let mut scene = Scene::of(WORLD);
    let request = format!(r#"{{"id":"a","fields":["cpu_ns"],"every_ns":{S},"code":-114}}"#);
    let first = scene.monitor(1, &request);
    let told = scene.at(2 * S + 50 * MS);
    let mut expected = vec![first];
    for told in told {
        let Told::Event(1, event) = told else { panic!("told to somebody else: {told:?}") };
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
fn a_count_ends_the_series_and_says_so() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(1, &format!(r#"{{"every_ns":{S},"count":3}}"#));
    let ended: Vec<_> = scene.events(1, 9 * S).iter().map(|it| it["ended"].clone()).collect();
    assert_eq!(ended, [Value::Null, json!("count")]);
    assert!(scene.engine.is_empty());
}

#[test]
fn ticks_do_not_drift_however_late_each_one_is() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(1, &every("a", 100 * MS));
    for tick in 1..20 {
        // Each is taken as late as nobody minds, a twentieth of its period.
        let at = tick * 100 * MS + 5 * MS;
        scene.now = at;
        scene.input(Input::Tick);
        let events = scene.events(1, at);
        assert_eq!(events.len(), 1, "tick {tick}");
        assert_eq!((&events[0]["late_ns"], &events[0]["missed"]), (&json!(5 * MS), &json!(0)));
    }
}

#[test]
fn late_ticks_are_counted_and_never_queued() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(1, &every("a", S));
    scene.slow = true;
    assert_eq!(scene.at(S + SLACK.0), []);
    assert_eq!(scene.at(4 * S + S / 2), []);
    scene.slow = false;
    let told = scene.back();
    let [Told::Event(1, event)] = told.as_slice() else { panic!("one event: {told:?}") };
    assert_eq!((&event["seq"], &event["missed"]), (&json!(1), &json!(3)));
    assert_eq!(event["late_ns"], 3 * S + S / 2);
    // The next is on time.
    let next = scene.events(1, 5 * S + SLACK.0);
    assert_eq!((next.len(), &next[0]["seq"], &next[0]["missed"]), (1, &json!(2), &json!(3)));
}

#[test]
fn ten_monitors_at_the_same_rate_cost_one_reading() {
    let mut scene = Scene::of(WORLD);
    for monitor in 0..10 {
        let conn = 1 + monitor % 4;
        let _first = scene.monitor(conn, &every(&format!("m{monitor}"), S));
    }
    let before = scene.asked().wants.len();
    assert_eq!(scene.at(10 * S + 50 * MS).len(), 100);
    assert_eq!(scene.asked().wants.len() - before, 10);
}

#[test]
fn monitors_that_began_apart_share_a_reading_if_it_makes_neither_late() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(1, &every("a", S));
    scene.at(3 * MS);
    let _first = scene.monitor(2, &every("b", S));
    let before = scene.asked().wants.len();
    let told = scene.at(S + 10 * MS);
    assert_eq!((told.len(), scene.asked().wants.len() - before), (2, 1));
}

#[test]
fn different_periods_are_kept_apart() {
    let mut scene = Scene::of(WORLD);
    let _fast = scene.monitor(1, &every("fast", 100 * MS));
    let _slow = scene.monitor(1, &every("slow", S));
    let events = scene.events(1, S + 50 * MS);
    let of = |id: &str| events.iter().filter(|it| it["id"] == id).count();
    assert_eq!((of("fast"), of("slow")), (10, 1));
}

#[test]
fn the_pace_has_a_limit_that_is_named() {
    let mut scene = Scene::of(WORLD);
    let got = scene.monitor(1, &every("a", 9 * MS));
    assert_eq!(got["error"], "OUT_OF_RESOURCE");
    assert_eq!(got["message"], r#"every_ns: the shortest is 10 ms, the limit "period""#);
    let costly = format!(r#"{{"fields":["pss_bytes"],"every_ns":{}}}"#, 99 * MS);
    let got = scene.monitor(1, &costly);
    assert_eq!(got["message"], r#"every_ns: the shortest is 100 ms, the limit "costly_period""#);
}
