//! Who is told of what did not happen, and when.

use super::*;
use crate::{Input, Limits};
use monitor_model::whose::Eyes;
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::params::Cancel;
use monitor_sampling::file::{Stat, Unseen};
use monitor_sampling::veil::Veil;

const S: u64 = 1_000_000_000;

fn caller(conn: Conn, uid: u32, pid: u32) -> Caller {
    Caller { conn, uid, gid: uid, pid, veil: Veil::Own(Eyes { uid, gid: uid }) }
}

/// Connections 1 and 2 of user 7, processes 100 and 200; connection 3 of user 8.
fn engine() -> Engine {
    let mut it = Engine::new("n".into(), Limits::default());
    for caller in [caller(1, 7, 100), caller(2, 7, 200), caller(3, 8, 300)] {
        assert!(it.input(Ns(0), Input::Opened(caller)).is_empty());
    }
    it
}

fn call(engine: &mut Engine, at: u64, from: Conn, call: Call) -> Vec<Output> {
    engine.input(Ns(at), Input::Called { from, tag: Some(Tag::Number(1)), call })
}

/// The same, where the process that is named is found, and is the caller's.
fn called(engine: &mut Engine, at: u64, from: Conn, it: Call) -> Vec<Output> {
    let mut out = call(engine, at, from, it);
    let mut due = at;
    while !out.iter().any(|it| matches!(it, Output::Claims(_))) {
        due = engine.due().expect("a claim waits").0;
        out = engine.input(Ns(due), Input::Tick);
    }
    let claims = out.into_iter().find_map(|it| match it {
        Output::Claims(claims) => Some(claims),
        _ => None,
    });
    let settled = claims.expect("claims").into_iter().map(|(key, _)| (key, Ok(()))).collect();
    engine.input(Ns(due), Input::Claimed(settled))
}

fn heartbeat(pid: Option<u32>, range: Option<&str>) -> Call {
    let range = range.map(str::to_owned);
    let (id, every_ns) = (Some("h".to_owned()), S);
    let (drops, repeat, code, replace) = (1, false, None, false);
    Call::Heartbeat(Heartbeat { id, pid, every_ns, drops, repeat, code, replace, range })
}

fn told(out: Vec<Output>) -> Vec<(Conn, i32, u64)> {
    let event = |it| match it {
        Output::Event { to, event } => {
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
fn a_missing_beat_is_told_to_who_watches() {
    let mut engine = engine();
    let _set = called(&mut engine, 0, 2, heartbeat(Some(100), None));
    let _beat = call(&mut engine, S / 2, 1, Call::Beat);
    assert_eq!(told(engine.input(Ns(S), Input::Tick)), []);
    assert_eq!(told(engine.input(Ns(2 * S), Input::Tick)), []);
    assert_eq!(engine.due(), Some(Ns(3 * S)));
    assert_eq!(told(engine.input(Ns(3 * S), Input::Tick)), [(2, -109, 2)]);
}

#[test]
fn a_beat_counts_for_all_who_watch_and_only_from_the_same_user() {
    let mut engine = engine();
    let _set = called(&mut engine, 0, 2, heartbeat(Some(100), None));
    let _set = call(&mut engine, 0, 1, heartbeat(None, None));
    let _set = called(&mut engine, 0, 3, heartbeat(Some(100), None));
    for second in 0..4 {
        let _beat = call(&mut engine, second * S + 1, 1, Call::Beat);
        assert_eq!(told(engine.input(Ns(second * S + 2), Input::Tick)), []);
    }
    let late: Vec<_> = told(engine.input(Ns(9 * S), Input::Tick));
    assert_eq!(late.iter().map(|it| it.0).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn a_process_that_is_not_there_or_of_another_is_not_watched_for() {
    let mut engine = engine();
    let out = call(&mut engine, 0, 2, heartbeat(Some(999), None));
    let [Output::Claims(claims)] = &out[..] else { panic!("it is looked for, and no more") };
    let [(key, claim)] = &claims[..] else { panic!("one") };
    assert_eq!((claim.pid, claim.uid, &claim.rank), (Pid(999), 7, &None));
    let refusal = Refusal::absent("no process 999");
    let out = engine.input(Ns(1), Input::Claimed(vec![(*key, Err(refusal.clone()))]));
    assert!(matches!(&out[..], [Output::Reply { to: 2, answer: Err(why), .. }] if *why == refusal));
    assert_eq!(told(engine.input(Ns(9 * S), Input::Tick)), []);
    assert_eq!(engine.refused()["NOT_FOUND"], 1);
}

#[test]
fn one_who_goes_before_it_is_found_leaves_no_alarm() {
    let mut engine = engine();
    let out = call(&mut engine, 0, 2, heartbeat(Some(100), None));
    let [Output::Claims(claims)] = &out[..] else { panic!("it is looked for") };
    assert!(engine.input(Ns(1), Input::Closed(2)).is_empty());
    assert!(engine.input(Ns(2), Input::Claimed(vec![(claims[0].0, Ok(()))])).is_empty());
    assert_eq!(engine.due(), None);
}

#[test]
fn others_of_the_same_user_are_told_if_that_was_asked_for() {
    let mut engine = engine();
    let _set = call(&mut engine, 0, 1, heartbeat(None, Some("user")));
    let mut hearers: Vec<_> =
        told(engine.input(Ns(2 * S), Input::Tick)).into_iter().map(|it| it.0).collect();
    hearers.sort_unstable();
    assert_eq!(hearers, [1, 2]);
}

/// A watch for the size of a file, to be told of after so many looks.
fn file(drops: u32) -> Call {
    let text =
        format!(r#"{{"id":"f","path":"/a","every_ns":{S},"drops":{drops},"size":true,"code":5}}"#);
    Call::File(serde_json::from_str(&text).expect("parameters"))
}

/// The file that somebody shall look at.
#[track_caller]
fn looks(out: &[Output]) -> (Key, String, u32) {
    let at = out.iter().find_map(|it| match it {
        Output::LookAt(at) => Some((at.key, at.path.clone(), at.uid)),
        _ => None,
    });
    at.expect("somebody shall look")
}

#[test]
fn who_may_not_look_at_a_file_is_refused_at_the_first_look() {
    let mut engine = engine();
    let (key, ..) = looks(&call(&mut engine, 0, 1, file(1)));
    let out = engine.input(Ns(1), Input::Looked(key, Err(Unseen::Denied)));
    assert!(matches!(&out[..], [Output::Reply { to: 1, answer: Err(why), .. }]
        if why.status == Status::NoPermissions && why.message.contains("/a")));
    assert_eq!((engine.due(), engine.refused()["NO_PERMISSIONS"]), (None, 1));
}

#[test]
fn one_that_is_not_there_yet_is_waited_for_and_told_of_when_it_goes() {
    let mut engine = engine();
    let (key, ..) = looks(&call(&mut engine, 0, 1, file(1)));
    let there = Ok(Stat { size: 9, accessed: Ns(0), modified: Ns(0) });
    let looked = [Err(Unseen::Missing), there, Err(Unseen::Missing)];
    let alerts = looked.into_iter().zip(0..).filter_map(|(stat, second)| {
        let _look = engine.input(Ns(second * S), Input::Tick);
        let out = engine.input(Ns(second * S + 1), Input::Looked(key, stat));
        out.into_iter().find_map(|it| match it {
            Output::Event { event, .. } => event.alert,
            _ => None,
        })
    });
    let gone = Alert::File { path: "/a".into(), unchanged: 1, missing: true, size: None };
    assert_eq!(alerts.collect::<Vec<_>>(), [gone]);
}

#[test]
fn one_that_is_cancelled_before_its_first_look_is_answered_all_the_same() {
    let mut engine = engine();
    let (key, ..) = looks(&call(&mut engine, 0, 1, file(1)));
    let out = call(&mut engine, 1, 1, Call::Cancel(Cancel::default()));
    assert!(matches!(&out[..], [
        Output::Reply { answer: Err(why), .. },
        Output::Reply { answer: Ok(Answer::Cancelled { .. }), .. },
    ] if why.status == Status::NotAvailable));
    assert!(engine.input(Ns(2), Input::Looked(key, Err(Unseen::Missing))).is_empty());
}

#[test]
fn a_file_is_looked_at_again_and_again_and_told_of_when_it_stays() {
    let mut engine = engine();
    let out = call(&mut engine, 0, 1, file(2));
    let stat = Ok(Stat { size: 9, accessed: Ns(0), modified: Ns(0) });
    let (key, path, uid) = looks(&out);
    assert_eq!((path.as_str(), uid), ("/a", 7));
    let out = engine.input(Ns(1), Input::Looked(key, stat));
    assert!(matches!(&out[..], [Output::Reply { to: 1, answer: Ok(Answer::Set { .. }), .. }]));
    for second in [1, 2] {
        let _again = looks(&engine.input(Ns(second * S), Input::Tick));
        let out = engine.input(Ns(second * S + 1), Input::Looked(key, stat));
        let codes: Vec<_> = out
            .iter()
            .filter_map(|it| match it {
                Output::Event { to: 1, event } => event.code,
                _ => None,
            })
            .collect();
        assert_eq!(codes, if second == 2 { vec![5] } else { vec![] });
    }
}

#[test]
fn an_alarm_is_cancelled_like_any_monitor_and_goes_with_its_connection() {
    let mut engine = engine();
    let _set = call(&mut engine, 0, 1, heartbeat(None, None));
    let again = call(&mut engine, 0, 1, heartbeat(None, None));
    assert!(matches!(&again[..], [Output::Reply { answer: Err(why), .. }]
        if why.status == Status::Exists));
    let which = Cancel { id: Some("h".into()), ..Cancel::default() };
    let out = call(&mut engine, 1, 1, Call::Cancel(which));
    assert!(matches!(&out[..], [Output::Reply { answer: Ok(Answer::Cancelled { .. }), .. }]));
    let _set = call(&mut engine, 2, 2, heartbeat(None, None));
    let _closed = engine.input(Ns(3), Input::Closed(2));
    assert_eq!((told(engine.input(Ns(9 * S), Input::Tick)), engine.due()), (vec![], None));
}

/// Who is told why an alarm has ended.
fn ends(out: Vec<Output>) -> Vec<(Conn, Option<Reason>)> {
    let end = |it| match it {
        Output::Event { to, event } => Some((to, event.ended)),
        _ => None,
    };
    out.into_iter().filter_map(end).collect()
}

#[test]
fn who_has_an_alarm_is_told_when_somebody_else_or_the_service_ends_it() {
    let mut engine = engine();
    let _set = call(&mut engine, 0, 1, heartbeat(None, Some("user")));
    let which = Cancel { id: Some("h".into()), requestor: Some(100), ..Cancel::default() };
    let out = call(&mut engine, 1, 2, Call::Cancel(which));
    assert_eq!(ends(out), [(1, Some(Reason::Cancelled))]);
    let _set = call(&mut engine, 2, 1, heartbeat(None, Some("user")));
    assert_eq!(ends(engine.input(Ns(3), Input::Shutdown)), [(1, Some(Reason::Shutdown))]);
    assert_eq!(engine.due(), None);
}

#[test]
fn who_asks_to_replace_gets_the_name_of_an_alarm() {
    let mut engine = engine();
    let _set = call(&mut engine, 0, 1, heartbeat(None, None));
    let Call::Heartbeat(params) = heartbeat(None, None) else { panic!("of a heart") };
    let again = Call::Heartbeat(Heartbeat { replace: true, ..params });
    let out = call(&mut engine, S / 2, 1, again);
    assert!(out.iter().any(|it| matches!(it, Output::Reply { answer: Ok(_), .. })));
    assert_eq!(ends(out), [(1, Some(Reason::Replaced))]);
    // Its windows are those of the new one.
    assert_eq!(told(engine.input(Ns(2 * S), Input::Tick)), []);
    assert_eq!(told(engine.input(Ns(5 * S / 2), Input::Tick)), [(1, -109, 2)]);
}

#[test]
fn to_cancel_what_is_not_there_is_an_error_unless_that_may_be() {
    let mut engine = engine();
    let mut cancel = |idempotent| {
        let which = Cancel { id: Some("none".into()), idempotent, ..Cancel::default() };
        let mut out = call(&mut engine, 0, 1, Call::Cancel(which));
        match out.pop() {
            Some(Output::Reply { answer, .. }) => answer.map(drop).map_err(|why| why.status),
            _ => panic!("one answer"),
        }
    };
    assert_eq!((cancel(false), cancel(true)), (Err(Status::NotFound), Ok(())));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut engine = engine();
    let file = |path: &str, size, every_ns| {
        let text = format!(r#"{{"path":"{path}","every_ns":{every_ns},"size":{size}}}"#);
        Call::File(serde_json::from_str(&text).expect("parameters"))
    };
    for wrong in [file("/a", false, S), file("a", true, S), file("/a", true, 0)] {
        let out = call(&mut engine, 0, 1, wrong);
        assert!(matches!(&out[..], [Output::Reply { answer: Err(why), .. }]
            if why.status == Status::BadParam));
    }
}
