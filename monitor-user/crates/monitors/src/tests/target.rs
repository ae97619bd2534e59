//! Targets: their exit records, and the end of their monitors.

use super::fixture::{Fixture, MS, S, pids};
use crate::MonitorInput;
use serde_json::{Value, json};

fn watch(pids: &str, more: &str) -> String {
    let fields = r#"["cpu_ns","ended","exit_code","approximate"]"#;
    format!(r#"{{"id":"a","fields":{fields},"every_ns":{S},"targets":[{pids}]{more}}}"#)
}

fn ended(events: &[Value]) -> Vec<(Vec<i64>, Value)> {
    events.iter().map(|it| (pids(it), it["ended"].clone())).collect()
}

#[test]
fn an_exit_has_exactly_one_record_and_ends_the_monitor() {
    let script = "process 7 cpu_ns/s=10ms\nprocess 8\nat 1500ms end 7 exit_code=3";
    for mut fixture in [Fixture::scripted(script), Fixture::with_partial_reads(script)] {
        assert_eq!(pids(&fixture.monitor(1, &watch(r#"{"pid":7}"#, ""))), [7]);
        let events = fixture.events(1, 9 * S);
        assert_eq!(ended(&events), [(vec![7], Value::Null), (vec![-7], json!("targets_gone"))]);
        let last = &events[1]["sample"]["processes"][0];
        assert_eq!((&last["exit_code"], &last["cpu_ns"]), (&json!(3), &json!(15 * MS)));
        assert!(last["approximate"].is_null(), "{last}");
        assert!(fixture.engine.is_empty());
    }
}

#[test]
fn the_series_continues_while_one_target_lives() {
    let script = "process 7\nprocess 8\nat 1500ms end 7\nat 3500ms end 8";
    let mut fixture = Fixture::with_partial_reads(script);
    let _first = fixture.monitor(1, &watch(r#"{"pid":7},{"pid":8}"#, ""));
    let got = ended(&fixture.events(1, 9 * S));
    let want: [(&[i64], Value); 4] = [
        (&[7, 8], Value::Null),
        (&[-7, 8], Value::Null),
        (&[8], Value::Null),
        (&[-8], json!("targets_gone")),
    ];
    assert_eq!(got, want.map(|(pids, ended)| (pids.to_vec(), ended)));
}

#[test]
fn a_reused_pid_never_continues_an_old_series() {
    let script = "process 7 cpu_ns=5s\nat 1500ms end 7\nat 1600ms process 7 cpu_ns=1s";
    for mut fixture in [Fixture::scripted(script), Fixture::with_partial_reads(script)] {
        let _first = fixture.monitor(1, &watch(r#"{"pid":7}"#, ""));
        let events = fixture.events(1, 9 * S);
        assert_eq!(ended(&events), [(vec![7], Value::Null), (vec![-7], json!("targets_gone"))]);
        assert_eq!(events[1]["sample"]["processes"][0]["cpu_ns"], 5 * S);
    }
}

#[test]
fn with_follow_the_series_continues_without_targets() {
    let script = "process 7\nprocess 8\nat 1500ms end 7";
    for mut fixture in [Fixture::scripted(script), Fixture::with_partial_reads(script)] {
        let _first = fixture.monitor(1, &watch(r#"{"pid":7}"#, r#","follow":true"#));
        let got = ended(&fixture.events(1, 4 * S + 50 * MS));
        let none = || (vec![], Value::Null);
        assert_eq!(got, [(vec![7], Value::Null), (vec![-7], Value::Null), none(), none()]);
        assert_eq!(fixture.engine.len(), 1);
    }
}

#[test]
fn an_exit_between_two_samples_of_a_slow_monitor_is_in_the_next() {
    let script = "process 7\nprocess 8\nat 1500ms end 7 exit_code=9";
    let mut fixture = Fixture::scripted(script);
    let slow = format!(r#"{{"id":"s","every_ns":{},"targets":[{{"pid":7}}]}}"#, 5 * S);
    let _slow = fixture.monitor(1, &slow);
    // The reading with the exit record belongs to the other monitor.
    let _fast = fixture.monitor(2, &watch(r#"{"pid":8}"#, ""));
    let events = fixture.events(1, 9 * S);
    assert_eq!(ended(&events), [(vec![-7], json!("targets_gone"))]);
    assert_eq!(events[0]["sample"]["processes"][0]["exit_code"], 9);
}

#[test]
fn a_monitor_of_all_processes_has_each_exit_once() {
    let script = "process 7\nat 1500ms process 8\nat 2500ms end 8";
    let mut fixture = Fixture::scripted(script);
    let all = format!(r#"{{"fields":["ended"],"every_ns":{S}}}"#);
    let _first = fixture.monitor(1, &all);
    let got: Vec<_> = fixture.events(1, 4 * S + 50 * MS).iter().map(pids).collect();
    assert_eq!(got, [vec![7], vec![7, 8], vec![7, -8], vec![7]]);
}

#[test]
fn an_unknown_target_is_not_found_alone_and_noted_beside_others() {
    let mut fixture = Fixture::with_partial_reads("process 7");
    let got = fixture.monitor(1, &watch(r#"{"pid":9}"#, ""));
    assert_eq!((&got["error"], &got["message"]), (&json!("NOT_FOUND"), &json!("no process 9")));
    let got = fixture.monitor(1, &watch(r#"{"pid":9},{"pid":7}"#, ""));
    assert_eq!((&got["status"], pids(&got)), (&json!("PARTIAL_SUCCESS"), vec![7]));
    assert_eq!(got["sample"]["notes"], json!(["no process 9"]));
}

#[test]
fn a_monitor_without_targets_at_the_start_is_removed() {
    let mut fixture = Fixture::scripted("process 7");
    let _refused = fixture.monitor(1, &watch(r#"{"pid":9}"#, ""));
    assert!(fixture.engine.is_empty());
}

#[test]
fn an_exit_is_reported_before_the_next_tick_and_is_not_a_tick() {
    let script = "every 1s\nprocess 7\nprocess 8\nat 500ms end 7 exit_code=3";
    let mut fixture = Fixture::scripted(script);
    let hour = 3_600 * S;
    let both = r#""targets":[{"pid":7},{"pid":8}]"#;
    let _first = fixture.monitor(1, &format!(r#"{{"id":"a","every_ns":{hour},"count":2,{both}}}"#));
    fixture.now = 600 * MS;
    fixture.input(MonitorInput::TargetsEnded(vec![0]));
    let events = fixture.events(1, 600 * MS);
    assert_eq!(ended(&events), [(vec![-7, 8], Value::Null)]);
    assert_eq!((&events[0]["late_ns"], &events[0]["missed"]), (&json!(0), &json!(0)));
    // No other target has ended: no second event.
    fixture.input(MonitorInput::TargetsEnded(vec![0]));
    assert_eq!(fixture.events(1, 700 * MS), Vec::<Value>::new());
    let last = fixture.events(1, hour + 50 * MS);
    assert_eq!(ended(&last), [(vec![8], json!("count"))]);
}
