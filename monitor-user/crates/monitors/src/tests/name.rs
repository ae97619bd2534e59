//! Names, cancelling, and what becomes of a monitor whose requestor has gone.

use super::scene::{MS, S, Scene, Told};
use crate::Input;
use monitor_protocol::Conn;
use serde_json::{Value, json};

const WORLD: &str = "process 7\nprocess 8";

fn every(id: &str, more: &str) -> String {
    format!(r#"{{"id":"{id}","fields":["cpu_ns"],"every_ns":{S}{more}}}"#)
}

fn ids(scene: &mut Scene, conn: Conn) -> Vec<String> {
    let listed = scene.call(conn, 9, "list", "{}");
    let [Told::Reply(_, 9, Value::Array(all))] = listed.as_slice() else { panic!("{listed:?}") };
    all.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_id_is_unique_for_one_requestor_and_free_for_another() {
    let mut scene = Scene::of(WORLD);
    assert_eq!(scene.monitor(1, &every("a", ""))["status"], "SUCCESS");
    let got = scene.monitor(1, &every("a", ""));
    assert_eq!(got["error"], "EXISTS");
    assert_eq!(got["message"], r#"monitor "a" is there already: cancel it, or ask to replace it"#);
    assert_eq!(scene.monitor(2, &every("a", ""))["status"], "SUCCESS");
    assert_eq!(scene.engine.len(), 2);
}

#[test]
fn who_asks_to_replace_gets_the_name_and_the_old_one_is_told_to_end() {
    let mut scene = Scene::of(WORLD);
    let _old = scene.monitor(1, &every("a", ""));
    let told = scene.call(1, 8, "monitor", &every("a", r#","replace":true"#));
    let [Told::Event(1, end), Told::Reply(1, 8, first)] = told.as_slice() else {
        panic!("an end and a beginning: {told:?}")
    };
    assert_eq!((&end["ended"], &first["seq"]), (&json!("replaced"), &json!(0)));
    assert_eq!((scene.engine.len(), scene.events(1, S + 50 * MS).len()), (1, 1));
}

#[test]
fn without_an_id_one_is_made_up_and_can_be_cancelled() {
    let mut scene = Scene::of(WORLD);
    let request = format!(r#"{{"every_ns":{S}}}"#);
    let [one, other] = [(), ()].map(|()| scene.monitor(1, &request)["id"].clone());
    assert_ne!(one, other);
    let told = scene.call(1, 8, "cancel", &json!({ "id": one }).to_string());
    assert_eq!(told, [Told::Reply(1, 8, json!({ "cancelled": [one] }))]);
    assert_eq!(ids(&mut scene, 1), [other.as_str().unwrap()]);
}

#[test]
fn cancel_without_a_name_ends_all_of_this_requestor_and_no_other() {
    let mut scene = Scene::of(WORLD);
    for (conn, id) in [(1, "a"), (1, "b"), (2, "c"), (3, "d")] {
        let _first = scene.monitor(conn, &every(id, ""));
    }
    let told = scene.call(1, 8, "cancel", "{}");
    assert_eq!(told, [Told::Reply(1, 8, json!({ "cancelled": ["a", "b"] }))]);
    assert_eq!(scene.call(1, 8, "cancel", "{}"), [Told::Reply(1, 8, json!({ "cancelled": [] }))]);
    assert_eq!(ids(&mut scene, 1), ["c", "d"]);
}

#[test]
fn an_unknown_id_is_not_found_and_anothers_is_unknown() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(1, &every("a", ""));
    for (conn, id) in [(1, "b"), (3, "a")] {
        let told = scene.call(conn, 8, "cancel", &format!(r#"{{"id":"{id}"}}"#));
        let [Told::Reply(_, 8, error)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(error["error"], "NOT_FOUND");
        assert_eq!(error["message"], format!("no monitor {id:?} of yours"));
    }
    assert_eq!(scene.engine.len(), 1);
}

#[test]
fn root_cancels_anybodys_and_who_had_it_is_told() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(3, &every("a", ""));
    let told = scene.call(1, 8, "cancel", r#"{"id":"a"}"#);
    let [Told::Event(3, end), Told::Reply(1, 8, _)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(end["ended"], "cancelled");
}

#[test]
fn the_answer_to_cancel_comes_when_nothing_more_will_be_sent() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(1, &every("a", ""));
    scene.slow = true;
    assert_eq!(scene.at(S + 50 * MS), []);
    // Its view is at a reading: the answer waits for it.
    assert_eq!(scene.call(1, 8, "cancel", r#"{"id":"a"}"#), []);
    scene.slow = false;
    assert_eq!(scene.back(), [Told::Reply(1, 8, json!({ "cancelled": ["a"] }))]);
    assert_eq!(scene.at(9 * S), []);
}

#[test]
fn a_monitor_that_is_cancelled_before_its_first_sample_is_answered_all_the_same() {
    let mut scene = Scene::of(WORLD);
    scene.slow = true;
    assert_eq!(scene.call(1, 5, "monitor", &every("a", "")), []);
    let told = scene.call(1, 6, "cancel", "{}");
    let [Told::Reply(1, 5, error)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(error["error"], "NOT_AVAILABLE");
    scene.slow = false;
    assert_eq!(scene.back(), [Told::Reply(1, 6, json!({ "cancelled": ["a"] }))]);
}

#[test]
fn a_requestor_that_disconnects_takes_its_monitors_with_it() {
    let mut scene = Scene::of(WORLD);
    for (conn, id) in [(1, "a"), (1, "b"), (2, "c")] {
        let _first = scene.monitor(conn, &every(id, ""));
    }
    scene.input(Input::Closed(1));
    assert_eq!(scene.engine.len(), 1);
    assert_eq!(scene.at(S + 50 * MS).len(), 1);
}

#[test]
fn one_that_disconnects_in_the_middle_of_a_sample_leaves_nothing() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(1, &every("a", ""));
    scene.slow = true;
    assert_eq!(scene.at(S + 50 * MS), []);
    scene.input(Input::Closed(1));
    scene.slow = false;
    assert_eq!(scene.back(), []);
    assert!(scene.engine.is_empty());
    assert_eq!((scene.engine.due(), scene.engine.capabilities().count()), (None, 0));
}

#[test]
fn a_lease_outlives_the_connection_and_keeps_so_many_events() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(3, &every("a", &format!(r#","lease_ns":{}"#, 60 * S)));
    scene.input(Input::Closed(3));
    assert_eq!(scene.at(5 * S + 50 * MS), []);
    let told = scene.call(4, 8, "attach", r#"{"id":"a"}"#);
    let [Told::Reply(4, 8, leased), events @ ..] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((&leased["kept"], &leased["lease_ns"]), (&json!(3), &json!(60 * S)));
    let seqs: Vec<_> = events
        .iter()
        .map(|it| match it {
            Told::Event(4, event) => (event["seq"].as_u64(), event["dropped"].as_u64()),
            other => panic!("{other:?}"),
        })
        .collect();
    // Two of five found no place; the first that did tells how many are missing before it.
    assert_eq!(seqs, [(Some(3), Some(2)), (Some(4), Some(0)), (Some(5), Some(0))]);
    assert_eq!(scene.events(4, 6 * S + 50 * MS).len(), 1);
}

#[test]
fn a_lease_that_nobody_renews_runs_out() {
    let mut scene = Scene::of(WORLD);
    let lease = format!(r#","lease_ns":{}"#, 3 * S);
    let _kept = scene.monitor(3, &every("a", &lease));
    let _left = scene.monitor(3, &every("b", &lease));
    scene.input(Input::Closed(3));
    let _told = scene.at(2 * S);
    let renewed = scene.call(4, 8, "renew", r#"{"id":"a"}"#);
    let [Told::Reply(4, 8, leased)] = renewed.as_slice() else { panic!("{renewed:?}") };
    assert_eq!(leased["id"], "a");
    let _told = scene.at(4 * S);
    assert_eq!(ids(&mut scene, 4), ["a"]);
    let _told = scene.at(5 * S + MS);
    assert!(scene.engine.is_empty());
    let late = scene.call(4, 8, "attach", r#"{"id":"a"}"#);
    let [Told::Reply(4, 8, error)] = late.as_slice() else { panic!("{late:?}") };
    assert_eq!(error["error"], "NOT_FOUND");
}

#[test]
fn a_first_sample_that_nobody_waits_for_any_more_is_kept() {
    let mut scene = Scene::of(WORLD);
    scene.slow = true;
    let told = scene.call(3, 5, "monitor", &every("a", &format!(r#","lease_ns":{}"#, 9 * S)));
    assert_eq!(told, []);
    scene.input(Input::Closed(3));
    assert_eq!(scene.back(), []);
    scene.slow = false;
    let told = scene.call(4, 8, "attach", r#"{"id":"a"}"#);
    let [Told::Reply(4, 8, leased), Told::Event(4, first)] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!((&leased["kept"], &first["seq"]), (&json!(1), &json!(0)));
}

#[test]
fn a_leased_monitor_of_another_user_cannot_be_taken_over() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(1, &every("a", &format!(r#","lease_ns":{}"#, 9 * S)));
    scene.input(Input::Closed(1));
    let told = scene.call(3, 8, "attach", r#"{"id":"a"}"#);
    let [Told::Reply(3, 8, error)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(error["error"], "NOT_FOUND");
}

#[test]
fn at_the_end_of_the_service_everybody_is_told() {
    let mut scene = Scene::of(WORLD);
    let _first = scene.monitor(1, &every("a", ""));
    scene.slow = true;
    assert_eq!(scene.call(2, 5, "monitor", &every("b", "")), []);
    scene.input(Input::Shutdown);
    let told = scene.at(0);
    let [Told::Event(1, end), Told::Reply(2, 5, error)] = told.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!((&end["ended"], &error["error"]), (&json!("shutdown"), &json!("NOT_AVAILABLE")));
}
