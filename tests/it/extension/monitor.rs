//! `mon_`: the monitoring service, asked in the language, by the service and without one.

use crate::deadline::until;
use crate::served::{Served, monitor};
use crate::socket_session::SocketSession;

const SAMPLE: &str = r#"10 [0] mon_sample("proc",["comm","rss_bytes"],"targets",[1234])"#;

/// The text between two others.
#[track_caller]
fn between<'t>(text: &'t str, begin: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin} in {text}"));
    rest.split_once(end).unwrap_or_else(|| panic!("no {end} in {rest}")).0
}

#[test]
fn a_sample_is_the_same_by_the_service_and_without_one() {
    let served = Served::start("test");
    let reply = served.connect().request(SAMPLE);
    let mut local = monitor();
    local.args(["ask", "--local", "--backend", "test", SAMPLE]);
    let alone = String::from_utf8(local.output().unwrap().stdout).unwrap();
    for text in [&reply, &alone] {
        assert!(text.starts_with("10 [0] mon_sample(0,[\"schema_version\","), "{text}");
        let process = between(text, "\"processes\",[[", "]]");
        assert!(process.starts_with("\"pid\",1234,\"start_time_ns\","), "{process}");
        assert!(process.contains("\"comm\",\"test-stats\""), "{process}");
        assert_eq!(between(text, "\"node\",", ","), "\"test-node\"");
    }
}

#[test]
fn samples_occur_until_the_monitor_is_cancelled() {
    let served = Served::start("test");
    let mut session = served.connect();
    let begin = "1 [0] mon_sampled(\"m\"): 2 [0] print($1,$2,$3,$4)";
    assert_eq!(session.request(begin), "1 [0] mon_sampled(0)");
    assert_eq!(session.request("3 [0] enable(1)"), "3 [0] enable(0)");
    let first = session.request("4 [0] mon_start(\"m\",\"node\",[\"load1\"],0.05)");
    assert!(first.starts_with("4 [0] mon_start(0,\"m\",[\"schema_version\","), "{first}");
    // A busy machine misses ticks.
    let second = session.line().unwrap();
    let is_second = second.starts_with("2 [0] print(0,[\"m\",1,") && second.ends_with(",0])");
    assert!(is_second, "{second}");
    let listed = served.connect().request("5 [0] mon_list()");
    assert!(listed.contains("[\"id\",\"m\",\"uid\",0,"), "{listed}");
    session.send(b"6 [0] mon_cancel(\"m\")\n7 [0] mon_list()\n").unwrap();
    let rest: Vec<String> =
        std::iter::from_fn(|| session.line()).take_while(|it| !ends(it)).collect();
    let cancelled = rest.iter().position(|it| it == "6 [0] mon_cancel(0,[\"m\"])");
    assert_eq!(cancelled, rest.len().checked_sub(1), "nothing comes behind it: {rest:?}");
}

fn ends(line: &str) -> bool {
    assert!(!line.starts_with("7 [0]") || line == "7 [0] mon_list(0,[])", "{line}");
    line.starts_with("7 [0]")
}

#[test]
fn a_tool_that_disconnects_loses_only_its_own_monitors() {
    let served = Served::start("test");
    let start = |session: &mut SocketSession| {
        let reply = session.request("1 [0] mon_start(\"m\",\"proc\",[\"pid\"],0.05)");
        assert!(reply.starts_with("1 [0] mon_start(0,\"m\","), "{reply}");
    };
    let (mut one, mut other) = (served.connect(), served.connect());
    start(&mut one);
    start(&mut other);
    // The two tools, an internal connection for each, and the client that requests the status.
    assert_eq!(
        (&served.status()["monitors"], &served.status()["connections"]),
        (&2.into(), &5.into())
    );
    drop(one);
    until(|| {
        (served.status()["monitors"] == 1 && served.status()["connections"] == 3).then_some(())
    });
    drop(other);
    until(|| {
        (served.status()["monitors"] == 0 && served.status()["connections"] == 1).then_some(())
    });
}

#[test]
fn limits_and_invalid_arguments_are_refused_as_by_the_service() {
    let served = Served::with("[limits]\nperiod = \"1s\"\nmonitors = 1\n");
    let mut session = served.connect();
    for (request, want) in [
        (
            "mon_start(\"m\",\"proc\",[\"pid\"],0.5)",
            "mon_start(403,0,\"every_ns: the shortest is 1000 ms, the limit \\\"period\\\"\")",
        ),
        (
            "mon_start(\"\",\"proc\",[],0)",
            "mon_start(105,0,\"every 0.0: expected seconds, more than 0\")",
        ),
        ("mon_sample(\"proc\",[],\"targets\",[3])", "mon_sample(300,0,\"no process 3\")"),
        (
            "mon_sample(\"prc\",[])",
            "mon_sample(402,0,\"unknown part \\\"prc\\\"; did you mean \\\"proc\\\"?\")",
        ),
        (
            "mon_sample(\"disk\",[],\"top\",3)",
            "mon_sample(105,0,\"top applies to processes, not to disk\")",
        ),
    ] {
        assert_eq!(session.request(&format!("1 [0] {request}")), format!("1 [0] {want}"));
    }
    let partly = session.request("1 [0] mon_sample(\"disk\",[],\"disks\",[\"sda\",\"none\"])");
    assert!(partly.starts_with("1 [0] mon_sample(1,["), "{partly}");
    assert!(partly.contains("\"no disk none: "), "{partly}");
    assert!(
        session.request("2 [0] mon_start(\"\",\"node\",[\"load1\"],1)").contains("(0,\"monitor-")
    );
    let want =
        "2 [0] mon_start(403,0,\"user 0 has 1 monitors, the limit \\\"monitors\\\": cancel some\")";
    assert_eq!(session.request("2 [0] mon_start(\"b\",\"node\",[\"load1\"],1)"), want);
}

#[test]
fn without_a_service_samples_occur_too() {
    let mut local = monitor();
    local.args(["ask", "--local", "--backend", "test", "--count", "2"]);
    local.args([
        "1 [0] mon_sampled(\"\"): 2 [0] print($1,$2)",
        "3 [0] enable(1)",
        "4 [0] mon_start(\"m\",\"node\",[\"load1\"],0.02)",
    ]);
    let output = local.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().filter(|it| it.starts_with("2 ")).take(2).collect();
    assert_eq!(lines, ["2 [0] print(0,[\"m\",1])", "2 [0] print(0,[\"m\",2])"], "{text}");
}
