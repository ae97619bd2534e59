//! The socket: every call with its parameters, every reply with its keys, errors, and events.
//!
//! A golden file is a conversation: a call, then the shape of its reply. A renamed parameter fails
//! because the service refuses unknown keys.

use super::check;
use super::recording::KEEPING;
use super::shape::Shape;
use crate::deadline::until;
use crate::served::{Folder, Served};
use crate::socket_session::SocketSession;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// An hour: longer than any test.
const HOUR: u64 = 3_600_000_000_000;
/// Lets every user see all processes.
const ALL: &str = "[policy]\nobserve-all = [\"*\"]\n";
/// Paths whose keys are data, or belong to a sample.
const OPEN: [&str; 6] = [
    "result.sample",
    "result.lost",
    "result.refused",
    "result.counters",
    "params.sample",
    "result.nodes[].event.sample",
];

/// A call, and the shape of its reply.
fn replied(session: &mut SocketSession, method: &str, params: &Value) -> String {
    let reply = session.call(method, params);
    format!("-> {method} {params}\n{}", Shape::from_value(&reply).text(&OPEN))
}

/// A call, and the error of its reply or the keys of its result.
fn outcome(session: &mut SocketSession, method: &str, params: &Value) -> String {
    let reply = session.call(method, params);
    let end = match (&reply["error"], &reply["result"]) {
        (Value::Null, Value::Object(result)) => {
            let keys: Vec<_> = result.keys().map(String::as_str).collect();
            let sample = result.get("sample").and_then(Value::as_object);
            let below: Vec<_> = sample.into_iter().flatten().map(|(key, _)| key.as_str()).collect();
            let below = below.join(" ");
            let below = if below.is_empty() { below } else { format!("\n  sample {below}") };
            keys.join(" ") + &below
        }
        (Value::Null, other) => other.to_string(),
        (error, _) => format!("error {} {}", error["code"], error["data"]["status"]),
    };
    format!("{method} {params}\n  {end}\n")
}

#[test]
fn every_call_keeps_the_keys_of_its_reply() {
    let served = Served::with(ALL);
    let mut session = served.connect();
    let calls = [
        ("hello", json!({})),
        ("monitor", json!({"part": "node", "fields": ["load1"]})),
        (
            "monitor",
            json!({"id": "a", "part": "node", "every_ns": HOUR, "lease_ns": HOUR, "code": 7}),
        ),
        ("monitor", json!({"part": "node", "targets": [{"node": "far"}, {"node": 0}]})),
        ("list", json!({})),
        ("attach", json!({"id": "a"})),
        ("renew", json!({"id": "a"})),
        ("cancel", json!({"id": "a"})),
        ("heartbeat", json!({"id": "b", "every_ns": HOUR})),
        ("beat", json!({})),
        ("file", json!({"id": "f", "path": "/proc/version", "every_ns": HOUR, "size": true})),
        ("probes", json!({})),
        ("status", json!({})),
        ("flight", json!({})),
    ];
    let mut out: String =
        calls.iter().map(|(method, params)| replied(&mut session, method, params)).collect();
    let _reply = session.request("10 [0] define_user_event(5)");
    let _reply = session.request("11 [0] user_event(5): 12 [0] print($1)");
    out += &replied(&mut session, "rules", &json!({}));
    // Both keys are present only where the host lacks something.
    let rare = ["result.host[].blocks", "result.host[].fix"];
    let lines = out.lines().filter(|line| !rare.iter().any(|it| line.starts_with(it)));
    let out: String = lines.map(|line| format!("{line}\n")).collect();
    check("socket/calls.txt", &out);
}

#[test]
fn register_account_and_sum_keep_the_keys_of_their_replies() {
    let served = Served::start("procfs");
    let mut session = served.connect();
    let mut out = replied(&mut session, "register", &json!({"namespace": "job", "rank": 3}));
    let own = json!({"namespace": "job", "rank": 4, "pid": std::process::id()});
    out += &outcome(&mut session, "register", &own).replace(&own["pid"].to_string(), "OWN");
    out += &replied(&mut session, "account", &json!({}));
    // Start times in `/proc` have a resolution of 10 ms: a child that starts in the same 10 ms as
    // `account` is called counts as older.
    let reply = until(|| {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let reply = session.call("sum", json!({"pid": child.id()}));
        drop(child.stdin.take());
        let _status = child.wait().unwrap();
        let is_empty = reply["result"]["left"].as_array().unwrap().is_empty();
        (!is_empty).then_some(reply)
    });
    out += &format!("-> sum\n{}", Shape::from_value(&reply).text(&OPEN));
    // Notes depend on the host.
    let out = out.replace("result.notes[]  text\n", "");
    check("socket/account.txt", &out);
}

#[test]
fn the_flight_recorder_is_sent_in_parts() {
    let served = Served::with(KEEPING);
    let mut session = served.connect();
    let part = until(|| Some(session.result("flight", "{}")).filter(|it| it["next"].is_object()));
    let mut out = Shape::from_value(&part).text(&[]);
    let next = session.result("flight", &part["next"]);
    assert!(next["base64"].is_string());
    // The number of parts depends on time.
    out += &outcome(&mut session, "flight", &json!({"last_ns": HOUR}))
        .replace("base64 next", "base64");
    check("socket/flight.txt", &out);
}

#[test]
fn a_monitor_accepts_every_key_of_its_request() {
    let served = Served::with(ALL);
    let mut cases = vec![
        json!({"id": "a"}),
        json!({"fields": ["comm", "PMIX_PROC_RSS", "pmix.proc.rss", "proc.pid"]}),
        json!({"targets": [{"pid": 1234}, {"pid": -1}]}),
        json!({"targets": [{"pid": 1234, "node": 0}]}),
        json!({"targets": [{"namespace": "job", "rank": 0}]}),
        json!({"targets": [{"namespace": "job"}]}),
        json!({"comms": ["test*"], "uids": [1000], "cgroups": ["/test"]}),
        json!({"filter": "rss > 1M and comm ~ test"}),
        json!({"part": "disk", "disks": ["sda"]}),
        json!({"part": "disk", "disks": ["sda", "nothing"]}),
        json!({"part": "net", "nets": ["lo"]}),
        json!({"sort": "+cpu_ns", "top": 1, "threads": true}),
        json!({"histograms": true}),
        json!({"group_by": "user", "keep_ns": 1_000_000}),
        json!({"pmix": true, "fields": ["rss_bytes"]}),
        json!({"every_ns": HOUR, "count": 2, "follow": true, "lease_ns": HOUR, "code": -3}),
        json!({"id": "a", "every_ns": HOUR, "replace": true}),
        json!({"local_only": true, "range": "requestor"}),
    ];
    cases.extend(["proc", "node", "disk", "net", "all"].map(|part| json!({"part": part})));
    let groups = ["job", "user", "comm", "cgroup", "container"];
    cases.extend(groups.map(|by| json!({"group_by": by, "fields": ["cpu_ns"]})));
    let capabilities = ["block", "write-back", "sockets", "run-queue", "exact-cpu", "signals"];
    cases.extend(capabilities.map(|it| json!({"capabilities": [it], "fields": ["pid"]})));
    let each = |params: &Value| outcome(&mut served.connect(), "monitor", params);
    check("socket/monitor.txt", &cases.iter().map(each).collect::<String>());
    // Only root may ask for another process; the service accepts the key from every user.
    let proxy = json!({"proxy": {"namespace": "job", "rank": 1}});
    let code = served.connect().call("monitor", &proxy)["error"]["code"].as_i64();
    assert!([None, Some(-23)].contains(&code), "{code:?}");
}

#[test]
fn the_other_calls_accept_every_key() {
    let served = Served::with("");
    let version = "/proc/version";
    let own = std::process::id();
    let cases = [
        ("cancel", json!({"all": true})),
        ("cancel", json!({"id": "nothing", "requestor": 1, "idempotent": true})),
        ("heartbeat", json!({"every_ns": HOUR, "drops": 1, "repeat": true, "code": 7})),
        ("heartbeat", json!({"id": "h", "every_ns": HOUR, "replace": true, "range": "user"})),
        ("heartbeat", json!({"every_ns": HOUR, "pid": own, "range": "requestor"})),
        ("file", json!({"path": version, "every_ns": HOUR, "size": true, "access": true})),
        ("file", json!({"path": version, "every_ns": HOUR, "modify": true, "drops": 2})),
        (
            "file",
            json!({"id": "f", "path": version, "every_ns": HOUR, "size": true, "repeat": true,
                "code": 7, "replace": true}),
        ),
        ("register", json!({"namespace": "job", "rank": 0})),
    ];
    let mut out = String::new();
    for (method, params) in cases {
        out += &outcome(&mut served.connect(), method, &params).replace(&own.to_string(), "OWN");
    }
    check("socket/keys.txt", &out);
}

#[test]
fn a_wrong_call_is_refused_with_its_error_code() {
    let served = Served::with("");
    let mut out = String::new();
    for method in ["monitor", "cancel", "attach", "renew", "heartbeat", "file", "register", "sum"] {
        let session = &mut served.connect();
        out += &outcome(session, method, &json!({"nothing_of_that_name": 1}));
        out += &outcome(session, method, &json!([]));
    }
    out += &outcome(&mut served.connect(), "flight", &json!({"nothing_of_that_name": 1}));
    for (method, params) in [
        ("monitor", json!({"fields": ["nothing"]})),
        ("monitor", json!({"fields": []})),
        ("monitor", json!({"part": "nothing"})),
        ("monitor", json!({"targets": [{"pid": 3}]})),
        ("monitor", json!({"targets": [{"node": "far"}]})),
        ("monitor", json!({"every_ns": 1})),
        ("cancel", json!({"id": "nothing"})),
        ("attach", json!({"id": "nothing"})),
        ("renew", json!({"id": "nothing"})),
        ("file", json!({"path": "/", "every_ns": HOUR})),
        ("sum", json!({"pid": 1})),
        ("moniter", json!({})),
    ] {
        out += &outcome(&mut served.connect(), method, &params);
    }
    let twice = json!({"id": "twice", "part": "node", "every_ns": HOUR});
    let session = &mut served.connect();
    out += &outcome(session, "monitor", &twice);
    out += &outcome(session, "monitor", &twice);
    for line in ["{", "{\"id\":1}", "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"hello\"}"] {
        let reply: Value = serde_json::from_str(&served.connect().request(line)).unwrap();
        out += &format!("{line}\n{}", Shape::from_value(&reply).text(&[]));
    }
    check("socket/errors.txt", &out);
}

/// The shape of the next event.
fn event(session: &mut SocketSession) -> String {
    loop {
        let line = session.next_json().expect("an event");
        if line["method"] == "event" {
            return Shape::from_value(&line).text(&OPEN);
        }
    }
}

/// The reason in the last event of a monitor.
fn last(session: &mut SocketSession) -> String {
    let ended = until(|| Some(session.event()).filter(|it| it["ended"].is_string()));
    format!("ended {}\n", ended["ended"])
}

#[test]
fn an_event_carries_a_sample_or_an_alert() {
    let served = Served::with("");
    let mut out = String::new();
    let often = 20_000_000;
    let folder = Folder::new();
    let path = folder.join("file");
    crate::served::write(&path, "text");
    for (method, params) in [
        ("monitor", json!({"id": "m", "part": "node", "fields": ["load1"], "every_ns": often})),
        (
            "monitor",
            json!({"id": "p", "pmix": true, "fields": ["comm"], "code": 7, "every_ns": often}),
        ),
        ("heartbeat", json!({"id": "h", "every_ns": often})),
        ("file", json!({"id": "f", "path": path, "every_ns": often, "modify": true})),
    ] {
        let mut session = served.connect();
        let _reply = session.result(method, &params);
        out += &format!("{method} {}\n{}", params["id"], event(&mut session));
        if method == "file" {
            std::fs::remove_file(&path).unwrap();
            out += &format!("file that is gone\n{}", event(&mut session));
        }
    }
    check("socket/events.txt", &out);
}

#[test]
fn a_monitor_that_ends_gives_its_reason() {
    let mut out = String::new();
    let mut served = Served::start("procfs");
    let start = |served: &Served, more: &Value| {
        let mut session = served.connect();
        let mut params = json!({"id": "a", "fields": ["pid"], "every_ns": 20_000_000});
        let members = params.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let _reply = session.result("monitor", &params);
        session
    };
    out += &last(&mut start(&served, &json!({"count": 2})));
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let mut session = start(&served, &json!({"targets": [{"pid": child.id()}]}));
    drop(child.stdin.take());
    let _status = child.wait().unwrap();
    out += &last(&mut session);
    let mut session = start(&served, &json!({}));
    let _reply = served.connect().result("cancel", json!({"all": true}));
    out += &last(&mut session);
    let mut session = start(&served, &json!({}));
    let params = json!({"id": "a", "every_ns": HOUR, "replace": true});
    let again = json!({"id": 2, "method": "monitor", "params": params});
    session.send(format!("{again}\n").as_bytes()).unwrap();
    out += &last(&mut session);
    let mut session = start(&served, &json!({"id": "z"}));
    served.signal(Signal::TERM);
    out += &last(&mut session);
    served.ends();
    check("socket/ends.txt", &out);
}

#[test]
fn a_line_that_is_not_json_is_a_request() {
    let served = Served::with("");
    let mut session = served.connect();
    let requests = [
        "1 [0] number_of_nodes()",
        "2 [0] define_user_event(5)",
        "3 [0] user_event(5): 4 [0] print($1)",
        "5 [0] enable(3); 6 [0] delete(3)",
    ];
    let mut line = |it: &str| format!("> {it}\n< {}\n", session.request(it));
    check("socket/requests.txt", &requests.map(&mut line).concat());
}
