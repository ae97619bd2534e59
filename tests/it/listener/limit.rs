//! Limits of one user, through the socket: a refusal names the limit that was reached.

use crate::served::Served;
use crate::socket_session::SocketSession;

const CONFIG: &str = "[limits]\nmonitors = 2\ngroups = 1\nlease = \"2s\"\nperiod = \"20ms\"\n\
                      costly_period = \"200ms\"\nregistrations = 1\n";

#[track_caller]
fn refused(talk: &mut SocketSession, params: &str, want: &str) {
    assert_eq!(talk.refusal("monitor", params), want, "{params}");
}

#[test]
fn every_refusal_for_a_limit_names_it() {
    let served = Served::with(CONFIG);
    let mut talk = served.connect();
    let every = |rest: &str| format!(r#"{{"fields":["pid"],{rest}}}"#);
    refused(
        &mut talk,
        &every(r#""every_ns":19000000"#),
        "every_ns: the shortest is 20 ms, the limit \"period\"",
    );
    refused(
        &mut talk,
        r#"{"fields":["pss_bytes"],"every_ns":199000000}"#,
        "every_ns: the shortest is 200 ms, the limit \"costly_period\"",
    );
    refused(
        &mut talk,
        &every(r#""every_ns":1000000000,"lease_ns":2000000001"#),
        "lease_ns: the longest is 2 s, the limit \"lease\"",
    );
    let grouped = r#"{"fields":["cpu_ns"],"group_by":"comm","every_ns":1000000000}"#;
    let _first = talk.result("monitor", grouped);
    let want = "user 0 has 1 monitors with groups, the limit \"groups\": cancel some";
    refused(&mut talk, grouped, want);
    let second = every(r#""every_ns":1000000000,"lease_ns":2000000000"#);
    let _second = talk.result("monitor", &second);
    let want = "user 0 has 2 monitors, the limit \"monitors\": cancel some";
    refused(&mut talk, &second, want);
    assert_eq!(talk.result("status", "{}")["refused"]["OUT_OF_RESOURCE"], 5);
}

/// More than are read of one process while the next is taken in.
const MANY: u32 = 64;

#[test]
fn registrations_wait_up_to_the_limit_and_the_next_is_refused_with_the_reason() {
    let served = Served::with(CONFIG);
    let mut talk = served.connect();
    // All in one piece: each waits for a reading, on another thread, and the next are there.
    let call = |rank: u32| {
        format!(
            "{{\"id\":{rank},\"method\":\"register\",\
             \"params\":{{\"namespace\":\"job\",\"rank\":{rank},\"pid\":1234}}}}\n"
        )
    };
    talk.send((0..MANY).map(call).collect::<String>().as_bytes()).unwrap();
    let answers: Vec<_> = (0..MANY).map(|_| talk.next_json().expect("an answer")).collect();
    let (refused, taken): (Vec<_>, Vec<_>) = answers.iter().partition(|it| it["error"].is_object());
    let want = "1 registrations of user 0 are pending, the limit \"registrations\": try again";
    refused.iter().for_each(|it| assert_eq!(it["error"]["message"], want));
    taken.iter().for_each(|it| assert_eq!(it["result"]["rank"], it["id"], "{it}"));
    assert!(!refused.is_empty() && !taken.is_empty(), "{answers:?}");
}
