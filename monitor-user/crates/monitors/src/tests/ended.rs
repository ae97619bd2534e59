//! The kept events of a monitor that ends while it is detached.

use super::fixture::{BEGUN, ClientOutput, Fixture, MS, S, pids};
use crate::MonitorInput;
use serde_json::{Value, json};

const WORLD: &str = "process 7\nprocess 8\nat 2s end 7";

/// A fixture in which a client of user 1000 has started a leased monitor and disconnected.
fn left(request: &str) -> Fixture {
    let mut fixture = Fixture::scripted(WORLD);
    let first = fixture.monitor(3, request);
    assert_eq!(first["status"], "SUCCESS", "{first}");
    fixture.input(MonitorInput::Closed(3));
    fixture
}

fn asked(more: &str, lease_s: u64) -> String {
    let lease = lease_s * S;
    format!(r#"{{"id":"a","fields":["ended"],"every_ns":{S},"lease_ns":{lease},{more}}}"#)
}

fn list(fixture: &mut Fixture) -> Vec<Value> {
    match fixture.call(4, 9, "list", "{}").as_slice() {
        [ClientOutput::Reply(4, 9, Value::Array(all))] => all.clone(),
        other => panic!("{other:?}"),
    }
}

fn attach(fixture: &mut Fixture) -> Vec<Value> {
    let outputs = fixture.call(4, 8, "attach", r#"{"id":"a"}"#);
    outputs
        .into_iter()
        .map(|it| match it {
            ClientOutput::Reply(4, 8, value) | ClientOutput::Event(4, value) => value,
            other => panic!("unexpected output: {other:?}"),
        })
        .collect()
}

#[test]
fn the_last_events_of_a_leased_monitor_are_kept_for_attach() {
    let mut fixture = left(&asked(r#""targets":[{"pid":7}]"#, 60));
    assert_eq!(fixture.at(9 * S), []);
    assert_eq!(fixture.engine.capabilities().count(), 0, "its capabilities are released");
    let listed = list(&mut fixture);
    assert_eq!((&listed[0]["ended"], &listed[0]["kept"]), (&json!("targets_gone"), &json!(2)));
    let outputs = attach(&mut fixture);
    let [leased, .., last] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((&leased["kept"], &last["ended"]), (&json!(2), &json!("targets_gone")));
    assert_eq!(pids(last), [-7], "its exit record");
    assert!(fixture.engine.is_empty() && fixture.engine.due().is_none());
    assert_eq!(attach(&mut fixture)[0]["error"], "NOT_FOUND");
}

#[test]
fn the_last_sample_of_a_count_is_kept_for_attach() {
    let mut fixture = left(&asked(r#""count":3"#, 60));
    assert_eq!(fixture.at(9 * S), []);
    let outputs = attach(&mut fixture);
    let ended: Vec<_> = outputs.iter().map(|it| it["ended"].clone()).collect();
    assert_eq!(ended, [Value::Null, Value::Null, json!("count")]);
}

#[test]
fn an_ended_monitor_is_removed_with_its_lease() {
    let mut fixture = left(&asked(r#""count":2"#, 5));
    let _outputs = fixture.at(4 * S);
    assert_eq!(list(&mut fixture).len(), 1);
    let _outputs = fixture.at(5 * S + MS);
    assert!(fixture.engine.is_empty() && fixture.engine.due().is_none());
}

#[test]
fn its_name_is_taken_until_it_is_read_cancelled_or_replaced() {
    let mut fixture = left(&asked(r#""count":2"#, 60));
    let _outputs = fixture.at(4 * S);
    let again = fixture.monitor(4, r#"{"id":"a"}"#);
    let why = "monitor \"a\" has ended, and its events are kept: read or cancel it, or set \
    replace";
    assert_eq!((&again["error"], &again["message"]), (&json!("EXISTS"), &json!(why)));
    let outputs = fixture.call(4, 8, "cancel", r#"{"id":"a"}"#);
    assert_eq!(outputs, [ClientOutput::Reply(4, 8, json!({ "cancelled": ["a"] }))]);
    assert!(fixture.engine.is_empty());
}

#[test]
fn end_events_and_alerts_carry_their_time() {
    let mut fixture = Fixture::scripted(WORLD);
    let periodic = format!(r#"{{"id":"a","every_ns":{},"replace":true}}"#, 3600 * S);
    let _first = fixture.monitor(1, &periodic);
    let _outputs = fixture.at(S);
    let replaced = fixture.call(1, 8, "monitor", &periodic);
    let _outputs = fixture.at(2 * S);
    let cancelled = fixture.call(2, 8, "cancel", r#"{"id":"a","requestor":101}"#);
    let _set = fixture.call(1, 8, "heartbeat", &format!(r#"{{"every_ns":{S}}}"#));
    let missed = fixture.at(3 * S);
    let _first = fixture.monitor(1, &periodic);
    let _outputs = fixture.at(3 * S + MS);
    fixture.input(MonitorInput::Shutdown);
    let ended = fixture.at(4 * S);
    let times = [replaced, cancelled, missed, ended].map(|outputs| {
        let times = outputs.into_iter().filter_map(|it| match it {
            ClientOutput::Event(1, event) => event["time_unix_ns"].as_u64(),
            _ => None,
        });
        times.map(|it| it - BEGUN).next()
    });
    assert_eq!(times, [Some(S), Some(2 * S), Some(3 * S), Some(3 * S + MS)]);
}
