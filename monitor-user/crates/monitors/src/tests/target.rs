//! The end of those that are watched, and who they are.

use super::scene::{MS, S, Scene, pids};
use crate::Input;
use serde_json::{Value, json};

fn watch(pids: &str, more: &str) -> String {
    let fields = r#"["cpu_ns","ended","exit_code","approximate"]"#;
    format!(r#"{{"id":"a","fields":{fields},"every_ns":{S},"targets":[{pids}]{more}}}"#)
}

fn ended(events: &[Value]) -> Vec<(Vec<i64>, Value)> {
    events.iter().map(|it| (pids(it), it["ended"].clone())).collect()
}

#[test]
fn a_death_gives_exactly_one_final_record_and_then_targets_gone() {
    let script = "process 7 cpu_ns/s=10ms\nprocess 8\nat 1500ms end 7 exit_code=3";
    for mut scene in [Scene::of(script), Scene::glancing(script)] {
        assert_eq!(pids(&scene.monitor(1, &watch(r#"{"pid":7}"#, ""))), [7]);
        let events = scene.events(1, 9 * S);
        assert_eq!(ended(&events), [(vec![7], Value::Null), (vec![-7], json!("targets_gone"))]);
        let last = &events[1]["sample"]["processes"][0];
        assert_eq!((&last["exit_code"], &last["cpu_ns"]), (&json!(3), &json!(15 * MS)));
        assert!(last["approximate"].is_null(), "{last}");
        assert!(scene.engine.is_empty());
    }
}

#[test]
fn while_one_of_them_lives_the_series_goes_on() {
    let script = "process 7\nprocess 8\nat 1500ms end 7\nat 3500ms end 8";
    let mut scene = Scene::glancing(script);
    let _first = scene.monitor(1, &watch(r#"{"pid":7},{"pid":8}"#, ""));
    let got = ended(&scene.events(1, 9 * S));
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
    for mut scene in [Scene::of(script), Scene::glancing(script)] {
        let _first = scene.monitor(1, &watch(r#"{"pid":7}"#, ""));
        let events = scene.events(1, 9 * S);
        assert_eq!(ended(&events), [(vec![7], Value::Null), (vec![-7], json!("targets_gone"))]);
        assert_eq!(events[1]["sample"]["processes"][0]["cpu_ns"], 5 * S);
    }
}

#[test]
fn who_follows_goes_on_when_all_are_gone() {
    let script = "process 7\nprocess 8\nat 1500ms end 7";
    for mut scene in [Scene::of(script), Scene::glancing(script)] {
        let _first = scene.monitor(1, &watch(r#"{"pid":7}"#, r#","follow":true"#));
        let got = ended(&scene.events(1, 4 * S + 50 * MS));
        let none = || (vec![], Value::Null);
        assert_eq!(got, [(vec![7], Value::Null), (vec![-7], Value::Null), none(), none()]);
        assert_eq!(scene.engine.len(), 1);
    }
}

#[test]
fn who_ended_between_two_looks_of_a_slow_monitor_is_told_by_the_next() {
    let script = "process 7\nprocess 8\nat 1500ms end 7 exit_code=9";
    let mut scene = Scene::of(script);
    let slow = format!(r#"{{"id":"s","every_ns":{},"targets":[{{"pid":7}}]}}"#, 5 * S);
    let _slow = scene.monitor(1, &slow);
    // The reading that tells of the end is another's.
    let _fast = scene.monitor(2, &watch(r#"{"pid":8}"#, ""));
    let events = scene.events(1, 9 * S);
    assert_eq!(ended(&events), [(vec![-7], json!("targets_gone"))]);
    assert_eq!(events[0]["sample"]["processes"][0]["exit_code"], 9);
}

#[test]
fn who_watches_everybody_sees_each_end_once() {
    let script = "process 7\nat 1500ms process 8\nat 2500ms end 8";
    let mut scene = Scene::of(script);
    let all = format!(r#"{{"fields":["ended"],"every_ns":{S}}}"#);
    let _first = scene.monitor(1, &all);
    let got: Vec<_> = scene.events(1, 4 * S + 50 * MS).iter().map(pids).collect();
    assert_eq!(got, [vec![7], vec![7, 8], vec![7, -8], vec![7]]);
}

#[test]
fn one_that_is_not_there_is_not_found_and_beside_others_a_part_of_the_answer() {
    let mut scene = Scene::glancing("process 7");
    let got = scene.monitor(1, &watch(r#"{"pid":9}"#, ""));
    assert_eq!((&got["error"], &got["message"]), (&json!("NOT_FOUND"), &json!("no process 9")));
    let got = scene.monitor(1, &watch(r#"{"pid":9},{"pid":7}"#, ""));
    assert_eq!((&got["status"], pids(&got)), (&json!("PARTIAL_SUCCESS"), vec![7]));
    assert_eq!(got["sample"]["notes"], json!(["no process 9"]));
}

#[test]
fn all_who_are_gone_at_the_first_look_leave_no_monitor_behind() {
    let mut scene = Scene::of("process 7");
    let _refused = scene.monitor(1, &watch(r#"{"pid":9}"#, ""));
    assert!(scene.engine.is_empty());
}

#[test]
fn an_end_is_told_before_the_next_tick_of_a_slow_monitor_and_is_no_tick() {
    let script = "every 1s\nprocess 7\nprocess 8\nat 500ms end 7 exit_code=3";
    let mut scene = Scene::of(script);
    let hour = 3_600 * S;
    let both = r#""targets":[{"pid":7},{"pid":8}]"#;
    let _first = scene.monitor(1, &format!(r#"{{"id":"a","every_ns":{hour},"count":2,{both}}}"#));
    scene.now = 600 * MS;
    scene.input(Input::Ended(vec![0]));
    let events = scene.events(1, 600 * MS);
    assert_eq!(ended(&events), [(vec![-7, 8], Value::Null)]);
    assert_eq!((&events[0]["late_ns"], &events[0]["missed"]), (&json!(0), &json!(0)));
    // Nobody else has ended: nothing is told twice.
    scene.input(Input::Ended(vec![0]));
    assert_eq!(scene.events(1, 700 * MS), Vec::<Value>::new());
    let last = scene.events(1, hour + 50 * MS);
    assert_eq!(ended(&last), [(vec![8], json!("count"))]);
}
