//! Names, cancelling, and monitors whose requestor has disconnected.

use super::fixture::{ClientOutput, Fixture, MS, S};
use crate::MonitorInput;
use monitor_protocol::Conn;
use serde_json::{Value, json};

const WORLD: &str = "process 7\nprocess 8";

fn every(id: &str, more: &str) -> String {
    format!(r#"{{"id":"{id}","fields":["cpu_ns"],"every_ns":{S}{more}}}"#)
}

fn ids(fixture: &mut Fixture, conn: Conn) -> Vec<String> {
    let listed = fixture.call(conn, 9, "list", "{}");
    let [ClientOutput::Reply(_, 9, Value::Array(all))] = listed.as_slice() else {
        panic!("{listed:?}")
    };
    all.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_id_is_unique_for_one_requestor_and_free_for_another() {
    let mut fixture = Fixture::scripted(WORLD);
    assert_eq!(fixture.monitor(1, &every("a", ""))["status"], "SUCCESS");
    let got = fixture.monitor(1, &every("a", ""));
    assert_eq!(got["error"], "EXISTS");
    assert_eq!(got["message"], r#"monitor "a" exists already: cancel it, or set replace"#);
    assert_eq!(fixture.monitor(2, &every("a", ""))["status"], "SUCCESS");
    assert_eq!(fixture.engine.len(), 2);
}

#[test]
fn replace_takes_over_the_name_and_ends_the_old_monitor() {
    let mut fixture = Fixture::scripted(WORLD);
    let _old = fixture.monitor(1, &every("a", ""));
    let outputs = fixture.call(1, 8, "monitor", &every("a", r#","replace":true"#));
    let [ClientOutput::Event(1, end), ClientOutput::Reply(1, 8, first)] = outputs.as_slice() else {
        panic!("an end event and a reply: {outputs:?}")
    };
    assert_eq!((&end["ended"], &first["seq"]), (&json!("replaced"), &json!(0)));
    assert_eq!((fixture.engine.len(), fixture.events(1, S + 50 * MS).len()), (1, 1));
}

#[test]
fn without_an_id_one_is_generated_and_can_be_cancelled() {
    let mut fixture = Fixture::scripted(WORLD);
    let request = format!(r#"{{"every_ns":{S}}}"#);
    let [one, other] = [(), ()].map(|()| fixture.monitor(1, &request)["id"].clone());
    assert_ne!(one, other);
    let outputs = fixture.call(1, 8, "cancel", &json!({ "id": one }).to_string());
    assert_eq!(outputs, [ClientOutput::Reply(1, 8, json!({ "cancelled": [one] }))]);
    assert_eq!(ids(&mut fixture, 1), [other.as_str().unwrap()]);
}

#[test]
fn cancel_without_a_name_ends_all_of_this_requestor_and_no_other() {
    let mut fixture = Fixture::scripted(WORLD);
    for (conn, id) in [(1, "a"), (1, "b"), (2, "c"), (3, "d")] {
        let _first = fixture.monitor(conn, &every(id, ""));
    }
    let outputs = fixture.call(1, 8, "cancel", "{}");
    assert_eq!(outputs, [ClientOutput::Reply(1, 8, json!({ "cancelled": ["a", "b"] }))]);
    assert_eq!(
        fixture.call(1, 8, "cancel", "{}"),
        [ClientOutput::Reply(1, 8, json!({ "cancelled": [] }))]
    );
    assert_eq!(ids(&mut fixture, 1), ["c", "d"]);
}

#[test]
fn an_unknown_id_and_one_of_another_user_are_not_found() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(1, &every("a", ""));
    for (conn, id) in [(1, "b"), (3, "a")] {
        let outputs = fixture.call(conn, 8, "cancel", &format!(r#"{{"id":"{id}"}}"#));
        let [ClientOutput::Reply(_, 8, error)] = outputs.as_slice() else { panic!("{outputs:?}") };
        assert_eq!(error["error"], "NOT_FOUND");
        assert_eq!(error["message"], format!("you have no monitor {id:?}"));
    }
    assert_eq!(fixture.engine.len(), 1);
}

#[test]
fn root_cancels_monitors_of_all_users_and_the_owner_is_notified() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(3, &every("a", ""));
    let outputs = fixture.call(1, 8, "cancel", r#"{"id":"a"}"#);
    let [ClientOutput::Event(3, end), ClientOutput::Reply(1, 8, _)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(end["ended"], "cancelled");
}

#[test]
fn no_event_follows_the_reply_to_cancel() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(1, &every("a", ""));
    fixture.slow = true;
    assert_eq!(fixture.at(S + 50 * MS), []);
    // Its view is at a reading: the reply waits for it.
    assert_eq!(fixture.call(1, 8, "cancel", r#"{"id":"a"}"#), []);
    let none = ClientOutput::Reply(1, 9, json!([]));
    assert_eq!(fixture.call(1, 9, "list", "{}"), [none], "it is not listed while it waits");
    fixture.slow = false;
    assert_eq!(fixture.end_reading(), [ClientOutput::Reply(1, 8, json!({ "cancelled": ["a"] }))]);
    assert_eq!(fixture.at(9 * S), []);
}

#[test]
fn a_monitor_cancelled_before_its_first_sample_gets_a_reply() {
    let mut fixture = Fixture::scripted(WORLD);
    fixture.slow = true;
    assert_eq!(fixture.call(1, 5, "monitor", &every("a", "")), []);
    let outputs = fixture.call(1, 6, "cancel", "{}");
    let [ClientOutput::Reply(1, 5, error)] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(error["error"], "NOT_AVAILABLE");
    fixture.slow = false;
    assert_eq!(fixture.end_reading(), [ClientOutput::Reply(1, 6, json!({ "cancelled": ["a"] }))]);
}

#[test]
fn monitors_end_with_the_connection_of_their_requestor() {
    let mut fixture = Fixture::scripted(WORLD);
    for (conn, id) in [(1, "a"), (1, "b"), (2, "c")] {
        let _first = fixture.monitor(conn, &every(id, ""));
    }
    fixture.input(MonitorInput::Closed(1));
    assert_eq!(fixture.engine.len(), 1);
    assert_eq!(fixture.at(S + 50 * MS).len(), 1);
}

#[test]
fn a_disconnect_during_a_reading_leaves_nothing_behind() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(1, &every("a", ""));
    fixture.slow = true;
    assert_eq!(fixture.at(S + 50 * MS), []);
    fixture.input(MonitorInput::Closed(1));
    fixture.slow = false;
    assert_eq!(fixture.end_reading(), []);
    assert!(fixture.engine.is_empty());
    assert_eq!((fixture.engine.due(), fixture.engine.capabilities().count()), (None, 0));
}

#[test]
fn a_leased_monitor_outlives_its_connection_and_keeps_a_limited_number_of_events() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(3, &every("a", &format!(r#","lease_ns":{}"#, 60 * S)));
    fixture.input(MonitorInput::Closed(3));
    assert_eq!(fixture.at(5 * S + 50 * MS), []);
    let outputs = fixture.call(4, 8, "attach", r#"{"id":"a"}"#);
    let [ClientOutput::Reply(4, 8, leased), events @ ..] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!((&leased["kept"], &leased["lease_ns"]), (&json!(3), &json!(60 * S)));
    let seqs: Vec<_> = events
        .iter()
        .map(|it| match it {
            ClientOutput::Event(4, event) => (event["seq"].as_u64(), event["dropped"].as_u64()),
            other => panic!("{other:?}"),
        })
        .collect();
    // Two of five were dropped; the first kept one has their number.
    assert_eq!(seqs, [(Some(3), Some(2)), (Some(4), Some(0)), (Some(5), Some(0))]);
    assert_eq!(fixture.events(4, 6 * S + 50 * MS).len(), 1);
}

#[test]
fn a_lease_that_is_not_renewed_expires() {
    let mut fixture = Fixture::scripted(WORLD);
    let lease = format!(r#","lease_ns":{}"#, 3 * S);
    let _kept = fixture.monitor(3, &every("a", &lease));
    let _left = fixture.monitor(3, &every("b", &lease));
    fixture.input(MonitorInput::Closed(3));
    let _outputs = fixture.at(2 * S);
    let renewed = fixture.call(4, 8, "renew", r#"{"id":"a"}"#);
    let [ClientOutput::Reply(4, 8, leased)] = renewed.as_slice() else { panic!("{renewed:?}") };
    assert_eq!(leased["id"], "a");
    let _outputs = fixture.at(4 * S);
    assert_eq!(ids(&mut fixture, 4), ["a"]);
    let _outputs = fixture.at(5 * S + MS);
    assert!(fixture.engine.is_empty());
    let late = fixture.call(4, 8, "attach", r#"{"id":"a"}"#);
    let [ClientOutput::Reply(4, 8, error)] = late.as_slice() else { panic!("{late:?}") };
    assert_eq!(error["error"], "NOT_FOUND");
}

#[test]
fn a_first_sample_after_a_disconnect_is_kept() {
    let mut fixture = Fixture::scripted(WORLD);
    fixture.slow = true;
    let outputs = fixture.call(3, 5, "monitor", &every("a", &format!(r#","lease_ns":{}"#, 9 * S)));
    assert_eq!(outputs, []);
    fixture.input(MonitorInput::Closed(3));
    assert_eq!(fixture.end_reading(), []);
    fixture.slow = false;
    let outputs = fixture.call(4, 8, "attach", r#"{"id":"a"}"#);
    let [ClientOutput::Reply(4, 8, leased), ClientOutput::Event(4, first)] = outputs.as_slice()
    else {
        panic!("{outputs:?}")
    };
    assert_eq!((&leased["kept"], &first["seq"]), (&json!(1), &json!(0)));
}

#[test]
fn a_leased_monitor_of_another_user_cannot_be_attached() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(1, &every("a", &format!(r#","lease_ns":{}"#, 9 * S)));
    fixture.input(MonitorInput::Closed(1));
    let outputs = fixture.call(3, 8, "attach", r#"{"id":"a"}"#);
    let [ClientOutput::Reply(3, 8, error)] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(error["error"], "NOT_FOUND");
}

#[test]
fn all_clients_are_notified_at_the_end_of_the_service() {
    let mut fixture = Fixture::scripted(WORLD);
    let _first = fixture.monitor(1, &every("a", ""));
    fixture.slow = true;
    assert_eq!(fixture.call(2, 5, "monitor", &every("b", "")), []);
    fixture.input(MonitorInput::Shutdown);
    let outputs = fixture.at(0);
    let [ClientOutput::Event(1, end), ClientOutput::Reply(2, 5, error)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!((&end["ended"], &error["error"]), (&json!("shutdown"), &json!("NOT_AVAILABLE")));
}
