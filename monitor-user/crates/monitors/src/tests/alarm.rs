//! Tests of alarms: receivers and times of alerts.

use crate::{
    Answer, Caller, MonitorEngine, MonitorInput, MonitorKey, MonitorOutput as Output,
    MonitorOutput, UserLimits,
};
use monitor_model::{Credentials, Ns, Pid, Refusal, Status};
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::event::{Alert, EndReason};
use monitor_protocol::params::{Cancel, Heartbeat};
use monitor_sampling::file_watch::{FileStat, StatFailure};
use monitor_sampling::visibility::Visibility;

const S: u64 = 1_000_000_000;

fn caller(conn: Conn, uid: u32, pid: u32) -> Caller {
    Caller {
        conn,
        uid,
        gid: uid,
        pid,
        visibility: Visibility::OwnInFull(Credentials { uid, gid: uid }),
    }
}

/// Connections 1 and 2 of user 7, processes 100 and 200; connection 3 of user 8.
fn engine() -> MonitorEngine {
    let mut it = MonitorEngine::new("n".into(), UserLimits::default());
    for caller in [caller(1, 7, 100), caller(2, 7, 200), caller(3, 8, 300)] {
        assert!(it.input(Ns(0), MonitorInput::Opened(caller)).is_empty());
    }
    it
}

fn call(engine: &mut MonitorEngine, at: u64, from: Conn, call: Call) -> Vec<MonitorOutput> {
    engine.input(Ns(at), MonitorInput::Called { from, tag: Some(Tag::Number(1)), call })
}

/// Makes a call and settles its claim as valid.
fn called(engine: &mut MonitorEngine, at: u64, from: Conn, it: Call) -> Vec<MonitorOutput> {
    let mut out = call(engine, at, from, it);
    let mut due = at;
    while !out.iter().any(|it| matches!(it, MonitorOutput::CheckClaims(_))) {
        due = engine.due().expect("a claim is pending").0;
        out = engine.input(Ns(due), MonitorInput::Tick);
    }
    let claims = out.into_iter().find_map(|it| match it {
        MonitorOutput::CheckClaims(claims) => Some(claims),
        _ => None,
    });
    let settled = claims.expect("claims").into_iter().map(|(key, _)| (key, Ok(()))).collect();
    engine.input(Ns(due), MonitorInput::ClaimsSettled(settled))
}

fn heartbeat(pid: Option<u32>, range: Option<&str>) -> Call {
    let range = range.map(str::to_owned);
    let (id, every_ns) = (Some("h".to_owned()), S);
    let (drops, repeat, code, replace) = (1, false, None, false);
    Call::Heartbeat(Heartbeat { id, pid, every_ns, drops, repeat, code, replace, range })
}

fn alerts(out: Vec<MonitorOutput>) -> Vec<(Conn, i32, u64)> {
    let event = |it| match it {
        MonitorOutput::Event { to, event } => {
            let Some(Alert::Heartbeat { missed_windows, .. }) = event.alert else {
                return None;
            };
            Some((to, event.code?, missed_windows))
        }
        _ => None,
    };
    out.into_iter().filter_map(event).collect()
}

#[test]
fn a_missing_heartbeat_alerts_the_watcher() {
    let mut engine = engine();
    let _set = called(&mut engine, 0, 2, heartbeat(Some(100), None));
    let _sent = call(&mut engine, S / 2, 1, Call::SendHeartbeat);
    assert_eq!(alerts(engine.input(Ns(S), MonitorInput::Tick)), []);
    assert_eq!(alerts(engine.input(Ns(2 * S), MonitorInput::Tick)), []);
    assert_eq!(engine.due(), Some(Ns(3 * S)));
    assert_eq!(alerts(engine.input(Ns(3 * S), MonitorInput::Tick)), [(2, -109, 2)]);
}

#[test]
fn a_heartbeat_counts_for_all_watchers_of_the_same_user() {
    let mut engine = engine();
    let _set = called(&mut engine, 0, 2, heartbeat(Some(100), None));
    let _set = call(&mut engine, 0, 1, heartbeat(None, None));
    let _set = called(&mut engine, 0, 3, heartbeat(Some(100), None));
    for second in 0..4 {
        let _sent = call(&mut engine, second * S + 1, 1, Call::SendHeartbeat);
        assert_eq!(alerts(engine.input(Ns(second * S + 2), MonitorInput::Tick)), []);
    }
    let late: Vec<_> = alerts(engine.input(Ns(9 * S), MonitorInput::Tick));
    assert_eq!(late.iter().map(|it| it.0).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn an_unknown_process_or_that_of_another_user_is_not_watched() {
    let mut engine = engine();
    let out = call(&mut engine, 0, 2, heartbeat(Some(999), None));
    let [MonitorOutput::CheckClaims(claims)] = &out[..] else { panic!("claims only") };
    let [(key, claim)] = &claims[..] else { panic!("one") };
    assert_eq!((claim.pid, claim.uid, &claim.rank), (Pid(999), 7, &None));
    let refusal = Refusal::absent("no process 999");
    let out = engine.input(Ns(1), MonitorInput::ClaimsSettled(vec![(*key, Err(refusal.clone()))]));
    assert!(matches!(&out[..], [Output::Reply { to: 2, answer: Err(why), .. }] if *why == refusal));
    assert_eq!(alerts(engine.input(Ns(9 * S), MonitorInput::Tick)), []);
    assert_eq!(engine.refused()["NOT_FOUND"], 1);
}

#[test]
fn a_client_that_disconnects_during_the_check_leaves_no_alarm() {
    let mut engine = engine();
    let out = call(&mut engine, 0, 2, heartbeat(Some(100), None));
    let [MonitorOutput::CheckClaims(claims)] = &out[..] else { panic!("claims") };
    assert!(engine.input(Ns(1), MonitorInput::Closed(2)).is_empty());
    assert!(
        engine.input(Ns(2), MonitorInput::ClaimsSettled(vec![(claims[0].0, Ok(()))])).is_empty()
    );
    assert_eq!(engine.due(), None);
}

#[test]
fn range_user_alerts_all_connections_of_the_user() {
    let mut engine = engine();
    let _set = call(&mut engine, 0, 1, heartbeat(None, Some("user")));
    let mut receivers: Vec<_> =
        alerts(engine.input(Ns(2 * S), MonitorInput::Tick)).into_iter().map(|it| it.0).collect();
    receivers.sort_unstable();
    assert_eq!(receivers, [1, 2]);
}

/// A watch of a file's size.
fn file(drops: u32) -> Call {
    let text =
        format!(r#"{{"id":"f","path":"/a","every_ns":{S},"drops":{drops},"size":true,"code":5}}"#);
    Call::File(serde_json::from_str(&text).expect("parameters"))
}

/// The file to be checked.
#[track_caller]
fn looks(out: &[MonitorOutput]) -> (MonitorKey, String, u32) {
    let at = out.iter().find_map(|it| match it {
        MonitorOutput::StatFile(at) => Some((at.key, at.path.clone(), at.uid)),
        _ => None,
    });
    at.expect("a file check")
}

#[test]
fn a_caller_that_may_not_read_the_file_is_refused_at_the_first_check() {
    let mut engine = engine();
    let (key, ..) = looks(&call(&mut engine, 0, 1, file(1)));
    let out = engine.input(Ns(1), MonitorInput::FileStat(key, Err(StatFailure::Denied)));
    assert!(matches!(&out[..], [MonitorOutput::Reply { to: 1, answer: Err(why), .. }]
        if why.status == Status::NoPermissions && why.message.contains("/a")));
    assert_eq!((engine.due(), engine.refused()["NO_PERMISSIONS"]), (None, 1));
}

#[test]
fn a_missing_file_is_waited_for_and_alerts_when_it_disappears() {
    let mut engine = engine();
    let (key, ..) = looks(&call(&mut engine, 0, 1, file(1)));
    let there = Ok(FileStat { size: 9, accessed: Ns(0), modified: Ns(0) });
    let looked = [Err(StatFailure::Missing), there, Err(StatFailure::Missing)];
    let alerts = looked.into_iter().zip(0..).filter_map(|(stat, second)| {
        let _look = engine.input(Ns(second * S), MonitorInput::Tick);
        let out = engine.input(Ns(second * S + 1), MonitorInput::FileStat(key, stat));
        out.into_iter().find_map(|it| match it {
            MonitorOutput::Event { event, .. } => event.alert,
            _ => None,
        })
    });
    let gone = Alert::File { path: "/a".into(), unchanged: 1, missing: true, size: None };
    assert_eq!(alerts.collect::<Vec<_>>(), [gone]);
}

#[test]
fn a_watch_cancelled_before_its_first_check_gets_a_reply() {
    let mut engine = engine();
    let (key, ..) = looks(&call(&mut engine, 0, 1, file(1)));
    let out = call(&mut engine, 1, 1, Call::Cancel(Cancel::default()));
    assert!(matches!(&out[..], [
        MonitorOutput::Reply { answer: Err(why), .. },
        MonitorOutput::Reply { answer: Ok(Answer::Cancelled { .. }), .. },
    ] if why.status == Status::NotAvailable));
    assert!(engine.input(Ns(2), MonitorInput::FileStat(key, Err(StatFailure::Missing))).is_empty());
}

#[test]
fn a_file_is_checked_periodically_and_alerts_when_it_does_not_change() {
    let mut engine = engine();
    let out = call(&mut engine, 0, 1, file(2));
    let stat = Ok(FileStat { size: 9, accessed: Ns(0), modified: Ns(0) });
    let (key, path, uid) = looks(&out);
    assert_eq!((path.as_str(), uid), ("/a", 7));
    let out = engine.input(Ns(1), MonitorInput::FileStat(key, stat));
    assert!(matches!(
        &out[..],
        [MonitorOutput::Reply { to: 1, answer: Ok(Answer::Set { .. }), .. }]
    ));
    for second in [1, 2] {
        let _again = looks(&engine.input(Ns(second * S), MonitorInput::Tick));
        let out = engine.input(Ns(second * S + 1), MonitorInput::FileStat(key, stat));
        let codes: Vec<_> = out
            .iter()
            .filter_map(|it| match it {
                MonitorOutput::Event { to: 1, event } => event.code,
                _ => None,
            })
            .collect();
        assert_eq!(codes, if second == 2 { vec![5] } else { vec![] });
    }
}

#[test]
fn an_alarm_is_cancelled_like_a_monitor_and_ends_with_its_connection() {
    let mut engine = engine();
    let _set = call(&mut engine, 0, 1, heartbeat(None, None));
    let again = call(&mut engine, 0, 1, heartbeat(None, None));
    assert!(matches!(&again[..], [MonitorOutput::Reply { answer: Err(why), .. }]
        if why.status == Status::Exists));
    let which = Cancel { id: Some("h".into()), ..Cancel::default() };
    let out = call(&mut engine, 1, 1, Call::Cancel(which));
    assert!(matches!(
        &out[..],
        [MonitorOutput::Reply { answer: Ok(Answer::Cancelled { .. }), .. }]
    ));
    let _set = call(&mut engine, 2, 2, heartbeat(None, None));
    let _closed = engine.input(Ns(3), MonitorInput::Closed(2));
    assert_eq!((alerts(engine.input(Ns(9 * S), MonitorInput::Tick)), engine.due()), (vec![], None));
}

/// The receivers of end events, with the reason.
fn ends(out: Vec<MonitorOutput>) -> Vec<(Conn, Option<EndReason>)> {
    let end = |it| match it {
        MonitorOutput::Event { to, event } => Some((to, event.ended)),
        _ => None,
    };
    out.into_iter().filter_map(end).collect()
}

#[test]
fn the_owner_is_notified_when_another_client_or_the_service_ends_an_alarm() {
    let mut engine = engine();
    let _set = call(&mut engine, 0, 1, heartbeat(None, Some("user")));
    let which = Cancel { id: Some("h".into()), requestor: Some(100), ..Cancel::default() };
    let out = call(&mut engine, 1, 2, Call::Cancel(which));
    assert_eq!(ends(out), [(1, Some(EndReason::Cancelled))]);
    let _set = call(&mut engine, 2, 1, heartbeat(None, Some("user")));
    assert_eq!(ends(engine.input(Ns(3), MonitorInput::Shutdown)), [(1, Some(EndReason::Shutdown))]);
    assert_eq!(engine.due(), None);
}

#[test]
fn replace_takes_over_the_name_of_an_alarm() {
    let mut engine = engine();
    let _set = call(&mut engine, 0, 1, heartbeat(None, None));
    let Call::Heartbeat(params) = heartbeat(None, None) else { panic!("a heartbeat call") };
    let again = Call::Heartbeat(Heartbeat { replace: true, ..params });
    let out = call(&mut engine, S / 2, 1, again);
    assert!(out.iter().any(|it| matches!(it, MonitorOutput::Reply { answer: Ok(_), .. })));
    assert_eq!(ends(out), [(1, Some(EndReason::Replaced))]);
    // The windows are those of the new alarm.
    assert_eq!(alerts(engine.input(Ns(2 * S), MonitorInput::Tick)), []);
    assert_eq!(alerts(engine.input(Ns(5 * S / 2), MonitorInput::Tick)), [(1, -109, 2)]);
}

#[test]
fn cancelling_an_unknown_monitor_is_an_error_unless_idempotent() {
    let mut engine = engine();
    let mut cancel = |idempotent| {
        let which = Cancel { id: Some("none".into()), idempotent, ..Cancel::default() };
        let mut out = call(&mut engine, 0, 1, Call::Cancel(which));
        match out.pop() {
            Some(MonitorOutput::Reply { answer, .. }) => answer.map(drop).map_err(|why| why.status),
            _ => panic!("one reply"),
        }
    };
    assert_eq!((cancel(false), cancel(true)), (Err(Status::NotFound), Ok(())));
}

#[test]
fn invalid_parameters_are_refused() {
    let mut engine = engine();
    let file = |path: &str, size, every_ns| {
        let text = format!(r#"{{"path":"{path}","every_ns":{every_ns},"size":{size}}}"#);
        Call::File(serde_json::from_str(&text).expect("parameters"))
    };
    for wrong in [file("/a", false, S), file("a", true, S), file("/a", true, 0)] {
        let out = call(&mut engine, 0, 1, wrong);
        assert!(matches!(&out[..], [MonitorOutput::Reply { answer: Err(why), .. }]
            if why.status == Status::BadParam));
    }
}
