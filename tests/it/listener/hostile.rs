//! Nonsense on the socket: memory stays bounded, the error is clear or the end is quiet, and
//! others are served as before.

use crate::deadline::until;
use crate::served::Served;

/// Memory that may come and go with buffers; far below what any of this would need unbounded.
const SLACK: u64 = 24 << 20;

/// Another client is answered, and the service has not grown.
#[track_caller]
fn unharmed(served: &Served, before: u64) {
    let node = served.connect().result("hello", "{}");
    assert_eq!(node["service"], "monitor");
    let now = served.resident_bytes();
    assert!(now < before + SLACK, "{before} bytes before, {now} after");
    assert!(!served.log().contains("panicked"), "{}", served.log());
}

fn begun() -> (Served, u64) {
    let served = Served::with("");
    let _first = served.status();
    let before = served.resident_bytes();
    (served, before)
}

#[test]
fn garbage_is_answered_line_by_line() {
    let (served, before) = begun();
    let mut talk = served.connect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..500 {
        let mut line: Vec<u8> = (0..64)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .filter(|byte| *byte != b'\n')
            .collect();
        // A call that is none, and a request that is none.
        line.splice(..0, *b"{]");
        line.push(b'\n');
        talk.send(&line).unwrap();
        assert_eq!(talk.next_json().unwrap()["error"]["code"], -32700);
        talk.send(&line[1..]).unwrap();
        let reply = talk.line().unwrap();
        assert!(reply.starts_with("0 [] error(10"), "{reply}");
    }
    assert_eq!(served.status()["refused"]["malformed call"], 500);
    unharmed(&served, before);
}

#[test]
fn half_a_line_is_nothing() {
    let (served, before) = begun();
    for _ in 0..100 {
        served.connect().send(br#"{"id":1,"method":"hel"#).unwrap();
    }
    until(|| (served.status()["connections"] == 1).then_some(()));
    unharmed(&served, before);
}

#[test]
fn a_line_of_a_gibibyte_ends_at_the_limit() {
    let (served, before) = begun();
    let mut talk = served.connect();
    let chunk = vec![b'{'; 1 << 20];
    let sent = (0..1024).take_while(|_| talk.send(&chunk).is_ok()).count();
    assert!(sent < 16, "{sent} MiB were taken");
    let reply = talk.next_json().expect("a refusal");
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("the limit \"request_bytes\""), "{message}");
    assert_eq!(talk.next_json(), None);
    unharmed(&served, before);
}

#[test]
fn a_million_nested_brackets_are_an_error() {
    let (served, before) = begun();
    let mut talk = served.connect();
    let line = format!("{{\"method\":\"monitor\",\"params\":{}\n", "[".repeat(1_000_000));
    talk.send(line.as_bytes()).unwrap();
    assert_eq!(talk.next_json().unwrap()["error"]["code"], -32700);
    unharmed(&served, before);
}

#[test]
fn a_client_that_closes_in_the_middle_of_a_reply_is_forgotten() {
    let (served, before) = begun();
    for _ in 0..50 {
        let mut talk = served.connect();
        let call = br#"{"id":1,"method":"monitor","params":{"part":"all"}}"#;
        let calls = [call.as_slice(), b"\n"].concat().repeat(100);
        talk.send(&calls).unwrap();
        let _first = talk.next_json().expect("an answer");
    }
    until(|| {
        let status = served.status();
        (status["connections"] == 1 && status["monitors"] == 0).then_some(())
    });
    unharmed(&served, before);
}

#[test]
fn a_client_that_calls_and_never_reads_is_read_no_further() {
    let (served, before) = begun();
    let mut talk = served.connect();
    talk.limit_write_time();
    let call = b"{\"id\":1,\"method\":\"monitor\",\"params\":{\"part\":\"all\"}}\n".repeat(1000);
    // It ends when nothing more is taken.
    let taken = (0..1000).take_while(|_| talk.send(&call).is_ok()).count();
    assert!(taken < 1000);
    unharmed(&served, before);
}

#[test]
fn a_thousand_silent_connections_disturb_no_client() {
    let _limit = monitor_sys::fd_limit::raise();
    let (served, before) = begun();
    let silent: Vec<_> = (0..1000).map(|_| served.connect()).collect();
    until(|| (served.status()["connections"] == 1001).then_some(()));
    unharmed(&served, before);
    drop(silent);
    until(|| (served.status()["connections"] == 1).then_some(()));
    let open = served.descriptors();
    assert!(open < 40, "{open} descriptors are left");
}

#[test]
fn a_connection_too_many_gets_the_limit_that_it_exceeds() {
    let served = Served::with("[limits]\nconnections = 3\n");
    let mut first = served.connect();
    // The connection that checked whether it listens is closed.
    until(|| (first.result("status", "{}")["connections"] == 1).then_some(()));
    let _others = [served.connect(), served.connect()];
    let reply = served.connect().next_json().expect("a refusal");
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("the limit \"connections\""), "{message}");
    let refused = first.result("status", "{}")["refused"]["connection limit"].as_u64();
    assert!(refused >= Some(1));
}

#[test]
fn the_rate_of_all_monitors_together_has_a_limit() {
    let served = Served::with("[limits]\nsamples_per_second = 15\n");
    let mut talk = served.connect();
    let params = r#"{"id":"a","fields":["cpu_ns"],"every_ns":100000000}"#;
    let _first = talk.result("monitor", params);
    let mut other = served.connect();
    let reply = other.refusal("monitor", &params.replace("\"a\"", "\"b\""));
    assert!(reply.contains("the limit \"samples_per_second\" is 15"), "{reply}");
    assert_eq!(other.result("status", "{}")["refused"]["OUT_OF_RESOURCE"], 1);
}
