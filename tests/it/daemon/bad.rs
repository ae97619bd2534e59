//! Bad input: each kind has its typed error, and no other client is affected.

use crate::served::Served;
use crate::socket_session::SocketSession;
use serde_json::Value;
use std::io::Read as _;

/// JSON-RPC's own numbers, and PMIx' (`model/status.rs`).
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const UNREACH: i64 = -25;
const BAD_PARAM: i64 = -27;
const OUT_OF_RESOURCE: i64 = -29;
const NOT_FOUND: i64 = -46;
const NOT_SUPPORTED: i64 = -47;

/// Parameters of `monitor`, the error code, and the text that its message must contain.
const ROWS: &[(&str, i64, &str)] = &[
    // What is not offered.
    (r#"{"part":"gpu"}"#, NOT_SUPPORTED, "gpu"),
    (r#"{"range":"session"}"#, NOT_SUPPORTED, "session"),
    // Selectors.
    (r#"{"fields":7}"#, BAD_PARAM, "fields"),
    (r#"{"fields":null}"#, BAD_PARAM, "fields"),
    (r#"{"fields":"cpu_ns"}"#, BAD_PARAM, "fields"),
    (r#"{"fields":[7]}"#, BAD_PARAM, "fields[0]"),
    (r#"{"fields":[]}"#, BAD_PARAM, "fields"),
    (r#"{"fields":["cpuu"]}"#, BAD_PARAM, "\"cpuu\""),
    (r#"{"filter":null}"#, BAD_PARAM, "filter"),
    (r#"{"filter":"cpu >"}"#, BAD_PARAM, "filter, column 6"),
    (r#"{"fields":[""]}"#, BAD_PARAM, "field"),
    (r#"{"part":"disk","disks":7}"#, BAD_PARAM, "disks"),
    (r#"{"part":"disk","disks":[7]}"#, BAD_PARAM, "disks[0]"),
    (r#"{"part":"net","nets":[null]}"#, BAD_PARAM, "nets[0]"),
    // An empty list is neither everything nor nothing.
    (r#"{"targets":[]}"#, BAD_PARAM, "targets"),
    (r#"{"comms":[]}"#, BAD_PARAM, "comms"),
    (r#"{"uids":[]}"#, BAD_PARAM, "uids"),
    (r#"{"cgroups":[]}"#, BAD_PARAM, "cgroups"),
    (r#"{"part":"disk","disks":[]}"#, BAD_PARAM, "disks"),
    (r#"{"part":"net","nets":[]}"#, BAD_PARAM, "nets"),
    (r#"{"feilds":["cpu_ns"]}"#, BAD_PARAM, "feilds"),
    // Targets.
    (r#"{"targets":7}"#, BAD_PARAM, "targets"),
    (r#"{"targets":[7]}"#, BAD_PARAM, "targets[0]"),
    (r#"{"targets":[{"pid":"7"}]}"#, BAD_PARAM, "targets[0]"),
    (r#"{"targets":[{"pid":0}]}"#, BAD_PARAM, "pid 0"),
    (r#"{"targets":[{"pid":-2}]}"#, BAD_PARAM, "pid -2"),
    (r#"{"targets":[{"pid":99}]}"#, NOT_FOUND, "99"),
    (r#"{"targets":[{"pid":1234,"node":"elsewhere"}]}"#, UNREACH, "elsewhere"),
    (r#"{"targets":[{"node":7}]}"#, UNREACH, "node 7"),
    (r#"{"targets":[{"node":[]}]}"#, BAD_PARAM, "targets[0]"),
    (r#"{"group_by":"jobs"}"#, BAD_PARAM, "\"job\""),
    (r#"{"keep_ns":1}"#, BAD_PARAM, "group_by"),
    (r#"{"sort":"cmdline"}"#, BAD_PARAM, "cmdline"),
    (r#"{"capabilities":["blok"]}"#, BAD_PARAM, "\"block\""),
    (r#"{"targets":[{"namespace":"job","rank":3}]}"#, NOT_FOUND, "job"),
    (r#"{"targets":[{"namespace":"job","rank":-3}]}"#, BAD_PARAM, "targets[0]"),
    // Names.
    (r#"{"id":7}"#, BAD_PARAM, "id"),
    (r#"{"id":null}"#, BAD_PARAM, "id"),
    (r#"{"id":""}"#, BAD_PARAM, "name"),
    (r#"{"id":"a\u0007"}"#, BAD_PARAM, "name"),
    // Paces.
    (r#"{"every_ns":"1s"}"#, BAD_PARAM, "every_ns"),
    (r#"{"every_ns":-1}"#, BAD_PARAM, "every_ns"),
    (r#"{"every_ns":0.5}"#, BAD_PARAM, "every_ns"),
    (r#"{"every_ns":1e30}"#, BAD_PARAM, "every_ns"),
    (r#"{"every_ns":0}"#, BAD_PARAM, "every_ns 0"),
    (r#"{"every_ns":1}"#, OUT_OF_RESOURCE, "\"period\""),
    (r#"{"every_ns":1000000000,"count":0}"#, BAD_PARAM, "count"),
    (r#"{"count":3}"#, BAD_PARAM, "count"),
    (r#"{"every_ns":1000000000,"lease_ns":0}"#, BAD_PARAM, "lease_ns"),
    (r#"{"every_ns":1000000000,"lease_ns":18446744073709551615}"#, OUT_OF_RESOURCE, "\"lease\""),
    // On behalf of others.
    (r#"{"proxy":7}"#, BAD_PARAM, "proxy"),
    (r#"{"proxy":{"rank":1}}"#, BAD_PARAM, "proxy"),
    // Parameters that are no object.
    ("[]", BAD_PARAM, "monitor"),
    ("7", BAD_PARAM, "monitor"),
];

/// The same of the other calls: the method first.
const OTHERS: &[(&str, &str, i64, &str)] = &[
    ("heartbeat", "{}", BAD_PARAM, "every_ns"),
    ("heartbeat", r#"{"every_ns":null}"#, BAD_PARAM, "every_ns"),
    ("heartbeat", r#"{"every_ns":0}"#, BAD_PARAM, "every_ns"),
    ("heartbeat", r#"{"every_ns":1}"#, OUT_OF_RESOURCE, "\"period\""),
    ("heartbeat", r#"{"every_ns":1000000000,"pid":0}"#, BAD_PARAM, "pid 0"),
    ("heartbeat", r#"{"every_ns":1000000000,"pid":-7}"#, BAD_PARAM, "pid"),
    ("heartbeat", r#"{"every_ns":1000000000,"drops":-1}"#, BAD_PARAM, "drops"),
    ("heartbeat", r#"{"every_ns":1000000000,"range":"world"}"#, BAD_PARAM, "world"),
    ("heartbeat", r#"{"every_ns":1000000000,"id":""}"#, BAD_PARAM, "name"),
    ("file", r#"{"path":"/etc/passwd","size":true}"#, BAD_PARAM, "every_ns"),
    ("file", r#"{"every_ns":1000000000,"size":true}"#, BAD_PARAM, "path"),
    ("file", r#"{"path":null,"every_ns":1000000000,"size":true}"#, BAD_PARAM, "path"),
    ("file", r#"{"path":"a","every_ns":1000000000,"size":true}"#, BAD_PARAM, "absolute path"),
    ("file", r#"{"path":"/etc/passwd","every_ns":1000000000}"#, BAD_PARAM, "size, access and"),
    ("register", r#"{"rank":0}"#, BAD_PARAM, "namespace"),
    ("register", r#"{"namespace":"job"}"#, BAD_PARAM, "rank"),
    ("register", r#"{"namespace":"job","rank":-1}"#, BAD_PARAM, "rank"),
    ("register", r#"{"namespace":"","rank":0}"#, BAD_PARAM, "name"),
    ("register", r#"{"namespace":"job","rank":0,"pid":99}"#, NOT_FOUND, "99"),
    ("cancel", r#"{"id":7}"#, BAD_PARAM, "id"),
    ("cancel", r#"{"id":"none"}"#, NOT_FOUND, "none"),
    ("attach", r#"{"id":"none"}"#, NOT_FOUND, "none"),
    ("renew", r#"{"id":"none"}"#, NOT_FOUND, "none"),
    ("sum", "{}", BAD_PARAM, "pid"),
    ("sum", r#"{"pid":99}"#, NOT_FOUND, "without account"),
];

#[track_caller]
fn check(got: &Value, code: i64, names: &str, of: &str) {
    let message = got["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(got["error"]["code"], code, "{of}: {got}");
    // An error with a status has its name, too.
    let status = monitor_model::status::Status::from_number(i32::try_from(code).unwrap());
    let name = status.map_or(Value::Null, |it| it.name().into());
    assert_eq!(got["error"]["data"]["status"], name, "{of}: {got}");
    assert!(message.contains(names), "{of}: {message:?} does not name {names:?}");
    let ours = ["struct ", "enum ", "untagged"].iter().all(|it| !message.contains(it));
    assert!(ours, "{of}: {message:?} speaks of how it is made");
    assert!(!message.contains('\n') && message.len() < 400, "{of}: {message}");
}

#[test]
fn every_bad_request_has_a_typed_error_that_names_the_fault() {
    let service = Served::start("test");
    let mut client = service.connect();
    for (params, code, names) in ROWS {
        check(&client.call("monitor", params), *code, names, params);
    }
    for (method, params, code, names) in OTHERS {
        check(&client.call(method, params), *code, names, &format!("{method} {params}"));
    }
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(256));
    check(&client.call("monitor", &long), BAD_PARAM, "name", "a long name");
    // After all that the connection is as good as new, and nothing was left behind.
    assert_eq!(client.call("monitor", "{}")["result"]["status"], "SUCCESS");
    assert_eq!(client.call("list", "{}")["result"], Value::Array(vec![]));
}

#[test]
fn an_invalid_call_is_answered_and_the_connection_continues() {
    let service = Served::start("test");
    let mut client = service.connect();
    for (line, code) in [
        ("{]", PARSE_ERROR),
        ("{\u{0}\u{1}\u{2}", PARSE_ERROR),
        ("{\"id\":1,", PARSE_ERROR),
        ("{}", INVALID_REQUEST),
        ("{\"id\":[],\"method\":\"list\"}", INVALID_REQUEST),
        ("{\"jsonrpc\":\"1.0\",\"method\":\"list\"}", INVALID_REQUEST),
        ("{\"method\":\"presuse\"}", METHOD_NOT_FOUND),
        ("{\"method\":\"attach\"}", BAD_PARAM),
        ("{\"method\":\"cancel\",\"params\":{\"id\":\"none\"},\"id\":4}", NOT_FOUND),
    ] {
        let _ = client.send(format!("{line}\n").as_bytes());
        check(&client.next_json().unwrap(), code, "", line);
    }
    let deep = format!("{{\"method\":\"monitor\",\"params\":{}\n", "[".repeat(500_000));
    let _ = client.send(deep.as_bytes());
    assert!(client.next_json().unwrap()["error"]["code"].as_i64().unwrap() < 0);
    assert_eq!(client.call("hello", "{}")["result"]["service"], "monitor");
}

#[test]
fn a_refusal_is_counted_under_its_status() {
    let service = Served::start("test");
    let mut client = service.connect();
    for params in [r#"{"fields":7}"#, r#"{"fields":[]}"#, r#"{"targets":[{"pid":99}]}"#, "7"] {
        let _refusal = client.refusal("monitor", params);
    }
    let _refusal = client.refusal("presuse", "{}");
    let refused = service.status()["refused"].clone();
    let want = serde_json::json!({ "BAD_PARAM": 3, "NOT_FOUND": 1, "malformed call": 1 });
    assert_eq!(refused, want);
}

#[test]
fn a_refusal_is_logged_with_client_and_reason_and_a_flood_is_not() {
    let service = Served::start("test");
    let mut client = service.connect();
    let why = [
        ("monitor", r#"{"fields":[]}"#),
        ("monitor", r#"{"every_ns":"1s"}"#),
        ("monitor", r#"{"targets":[{"pid":99}]}"#),
        ("presuse", "{}"),
    ]
    .map(|(method, params)| client.refusal(method, params));
    let (uid, pid) = (rustix::process::getuid().as_raw(), std::process::id());
    let is_logged = |log: &str, why: &String| {
        let client = [format!("uid={uid}"), format!("pid={pid}")];
        log.lines().any(|line| line.contains(why) && client.iter().all(|it| line.contains(it)))
    };
    let all = || why.iter().all(|why| is_logged(&service.log(), why)).then_some(());
    crate::deadline::until(all);
    for _ in 0..1000 {
        let _refusal = client.refusal("flood", "{}");
    }
    let lines = service.log().lines().filter(|line| line.contains("\"flood\"")).count();
    assert!((1..100).contains(&lines), "{lines}");
}

#[test]
fn a_line_without_end_is_cut_off_in_bounded_memory() {
    let service = Served::start("test");
    let mut other = service.connect();
    let before = service.resident_bytes();
    let mut client = service.connect();
    let part = vec![b'x'; 1 << 20];
    // Far more than is ever kept; the other end closes long before.
    (0..64).for_each(|_| drop(client.send(&part)));
    assert!(service.resident_bytes() < before + (16 << 20));
    assert_eq!(other.call("hello", "{}")["result"]["service"], "monitor");
}

#[test]
fn clients_that_are_silent_or_leave_in_mid_reply_disturb_no_other() {
    let service = Served::start("test");
    let mut client = service.connect();
    let silent: Vec<SocketSession> = (0..200).map(|_| service.connect()).collect();
    for _ in 0..50 {
        let mut leaves = service.connect();
        let _ = leaves
            .send(b"{\"id\":1,\"method\":\"monitor\",\"params\":{\"part\":\"all\"}}\n{\"id\"");
        drop(leaves);
    }
    assert_eq!(client.call("monitor", "{}")["result"]["status"], "SUCCESS");
    drop(silent);
    crate::deadline::until(|| (service.descriptors() < 40).then_some(()));
    assert_eq!(client.call("hello", "{}")["result"]["service"], "monitor");
}

#[test]
fn bytes_of_any_kind_never_end_the_service() {
    let service = Served::start("test");
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..64 {
        let mut client = service.connect();
        let bytes: Vec<u8> = (0..4096)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        let _ = client.send(&bytes);
    }
    let mut client = service.connect();
    assert_eq!(client.call("hello", "{}")["result"]["service"], "monitor");
    let mut log = String::new();
    std::fs::File::open(format!("/proc/{}/comm", service.pid()))
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    assert_eq!(log.trim(), "monitor");
}
