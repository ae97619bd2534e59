//! What a monitor has to tell as it ends while nobody listens.

use super::scene::{BEGUN, MS, S, Scene, Told, pids};
use crate::Input;
use serde_json::{Value, json};

const WORLD: &str = "process 7\nprocess 8\nat 2s end 7";

/// A scene in which one of user 1000 has asked for this on a lease, and gone.
fn left(request: &str) -> Scene {
    let mut scene = Scene::of(WORLD);
    let first = scene.monitor(3, request);
    assert_eq!(first["status"], "SUCCESS", "{first}");
    scene.input(Input::Closed(3));
    scene
}

fn asked(more: &str, lease_s: u64) -> String {
    let lease = lease_s * S;
    format!(r#"{{"id":"a","fields":["ended"],"every_ns":{S},"lease_ns":{lease},{more}}}"#)
}

fn list(scene: &mut Scene) -> Vec<Value> {
    match scene.call(4, 9, "list", "{}").as_slice() {
        [Told::Reply(4, 9, Value::Array(all))] => all.clone(),
        other => panic!("{other:?}"),
    }
}

fn attach(scene: &mut Scene) -> Vec<Value> {
    let told = scene.call(4, 8, "attach", r#"{"id":"a"}"#);
    told.into_iter()
        .map(|it| match it {
            Told::Reply(4, 8, value) | Told::Event(4, value) => value,
            other => panic!("told to somebody else: {other:?}"),
        })
        .collect()
}

#[test]
fn what_a_leased_monitor_tells_as_its_targets_end_waits_for_who_comes() {
    let mut scene = left(&asked(r#""targets":[{"pid":7}]"#, 60));
    assert_eq!(scene.at(9 * S), []);
    assert_eq!(scene.engine.capabilities().count(), 0, "nothing is attached for it any more");
    let listed = list(&mut scene);
    assert_eq!((&listed[0]["ended"], &listed[0]["kept"]), (&json!("targets_gone"), &json!(2)));
    let told = attach(&mut scene);
    let [leased, .., last] = &told[..] else { panic!("{told:?}") };
    assert_eq!((&leased["kept"], &last["ended"]), (&json!(2), &json!("targets_gone")));
    assert_eq!(pids(last), [-7], "its last record");
    assert!(scene.engine.is_empty() && scene.engine.due().is_none());
    assert_eq!(attach(&mut scene)[0]["error"], "NOT_FOUND");
}

#[test]
fn so_does_the_last_of_a_count() {
    let mut scene = left(&asked(r#""count":3"#, 60));
    assert_eq!(scene.at(9 * S), []);
    let told = attach(&mut scene);
    let ended: Vec<_> = told.iter().map(|it| it["ended"].clone()).collect();
    assert_eq!(ended, [Value::Null, Value::Null, json!("count")]);
}

#[test]
fn nobody_comes_and_it_goes_with_its_lease() {
    let mut scene = left(&asked(r#""count":2"#, 5));
    let _told = scene.at(4 * S);
    assert_eq!(list(&mut scene).len(), 1);
    let _told = scene.at(5 * S + MS);
    assert!(scene.engine.is_empty() && scene.engine.due().is_none());
}

#[test]
fn its_name_is_taken_until_it_is_read_cancelled_or_replaced() {
    let mut scene = left(&asked(r#""count":2"#, 60));
    let _told = scene.at(4 * S);
    let again = scene.monitor(4, r#"{"id":"a"}"#);
    let why = "monitor \"a\" has ended, and its events are kept: read or cancel it, or ask to \
               replace it";
    assert_eq!((&again["error"], &again["message"]), (&json!("EXISTS"), &json!(why)));
    let told = scene.call(4, 8, "cancel", r#"{"id":"a"}"#);
    assert_eq!(told, [Told::Reply(4, 8, json!({ "cancelled": ["a"] }))]);
    assert!(scene.engine.is_empty());
}

#[test]
fn who_is_told_of_an_end_or_of_a_missing_beat_is_told_when() {
    let mut scene = Scene::of(WORLD);
    let periodic = format!(r#"{{"id":"a","every_ns":{},"replace":true}}"#, 3600 * S);
    let _first = scene.monitor(1, &periodic);
    let _told = scene.at(S);
    let replaced = scene.call(1, 8, "monitor", &periodic);
    let _told = scene.at(2 * S);
    let cancelled = scene.call(2, 8, "cancel", r#"{"id":"a","requestor":101}"#);
    let _set = scene.call(1, 8, "heartbeat", &format!(r#"{{"every_ns":{S}}}"#));
    let missed = scene.at(3 * S);
    let _first = scene.monitor(1, &periodic);
    let _told = scene.at(3 * S + MS);
    scene.input(Input::Shutdown);
    let ended = scene.at(4 * S);
    let times = [replaced, cancelled, missed, ended].map(|told| {
        let times = told.into_iter().filter_map(|it| match it {
            Told::Event(1, event) => event["time_unix_ns"].as_u64(),
            _ => None,
        });
        times.map(|it| it - BEGUN).next()
    });
    assert_eq!(times, [Some(S), Some(2 * S), Some(3 * S), Some(3 * S + MS)]);
}
