//! `mon_`: heartbeats and file changes that do not come in time, and registered ranks.

use crate::deadline::until;
use crate::served::{Folder, Served, monitor, write};
use crate::socket_session::SocketSession;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A tool that prints each alert, and why a watch has ended.
fn listener(served: &Served) -> SocketSession {
    let mut talk = served.connect();
    for (request, want) in [
        ("1 [0] mon_alerted(\"\"): 2 [0] print($1,$2,$3,$4,$5)", "1 [0] mon_alerted(0)"),
        ("3 [0] mon_ended(\"\"): 4 [0] print($1,$2)", "3 [0] mon_ended(0)"),
        ("5 [0] enable(1)", "5 [0] enable(0)"),
        ("6 [0] enable(3)", "6 [0] enable(0)"),
    ] {
        assert_eq!(talk.request(request), want);
    }
    talk
}

#[track_caller]
fn alert_line(talk: &mut SocketSession) -> String {
    talk.line().expect("an alert")
}

#[test]
fn a_process_without_heartbeats_raises_an_alert_and_one_with_them_does_not() {
    let served = Served::start("test");
    let mut talk = listener(&served);
    let watched = [
        ("mon_heartbeat(\"living\",1,\"drops\",1)", "mon_heartbeat(0,\"living\")"),
        (
            "mon_heartbeat(\"dead\",1,\"pid\",1234,\"drops\",1,\"code\",7)",
            "mon_heartbeat(0,\"dead\")",
        ),
    ];
    for (request, want) in watched {
        assert_eq!(talk.request(&format!("7 [0] {request}")), format!("7 [0] {want}"));
    }
    // Another connection of the same process: heartbeats count per process.
    let (mut other, quiet) = (served.connect(), AtomicBool::new(false));
    let first = thread::scope(|scope| {
        let beating = scope.spawn(|| {
            until(|| {
                assert_eq!(other.request("1 [0] mon_beat()"), "1 [0] mon_beat(0)");
                quiet.load(Ordering::Relaxed).then_some(())
            });
        });
        let first = alert_line(&mut talk);
        quiet.store(true, Ordering::Relaxed);
        beating.join().unwrap();
        first
    });
    let dead = "2 [0] print(0,[\"dead\",1,7,\"heartbeat\",[\"pid\",1234,\"missed_windows\",";
    assert!(first.starts_with(dead) && first.ends_with(",\"beats\",0]])"), "{first}");
    let second = alert_line(&mut talk);
    let pid = std::process::id();
    let living = format!(
        "2 [0] print(0,[\"living\",1,-109,\"heartbeat\",[\"pid\",{pid},\"missed_windows\","
    );
    assert!(second.starts_with(&living) && !second.ends_with(",\"beats\",0]])"), "{second}");
}

#[test]
fn an_unchanged_file_raises_alerts_until_it_changes() {
    let (served, folder) = (Served::start("test"), Folder::new());
    let path = folder.join("log");
    write(&path, "12345");
    let mut talk = listener(&served);
    let path = path.to_str().unwrap();
    let watch = format!("7 [0] mon_file(\"log\",\"{path}\",0.05,\"size\",1,\"drops\",2)");
    assert_eq!(talk.request(&watch), "7 [0] mon_file(0,\"log\")");
    let alert = |seq: u32, size: u32| {
        let rest = format!("[\"path\",\"{path}\",\"unchanged\",2,\"size\",{size}]");
        format!("2 [0] print(0,[\"log\",{seq},-110,\"file\",{rest}])")
    };
    assert_eq!(alert_line(&mut talk), alert(1, 5));
    OpenOptions::new().append(true).open(path).unwrap().write_all(b"67").unwrap();
    assert_eq!(alert_line(&mut talk), alert(2, 7));
    std::fs::remove_file(path).unwrap();
    let gone = format!("[\"path\",\"{path}\",\"unchanged\",2,\"missing\",1]");
    assert_eq!(alert_line(&mut talk), format!("2 [0] print(0,[\"log\",3,-110,\"file\",{gone}])"));
}

#[test]
fn a_registered_rank_is_found_by_targets_that_name_it() {
    let served = Served::start("test");
    let mut talk = served.connect();
    let sample =
        "1 [0] mon_sample(\"proc\",[\"comm\"],\"targets\",[[\"namespace\",\"job\",\"rank\",3]])";
    assert_eq!(talk.request(sample), "1 [0] mon_sample(300,0,\"no rank 3 of \\\"job\\\"\")");
    let register = "2 [0] mon_register(\"job\",3,\"pid\",1234)";
    assert_eq!(talk.request(register), "2 [0] mon_register(0,\"job\",3,1234)");
    let seen = served.connect().request(sample);
    assert!(seen.starts_with("1 [0] mon_sample(0,") && seen.contains("[[\"pid\",1234,"), "{seen}");
}

#[test]
fn watches_are_listed_cancelled_and_gone_like_monitors() {
    let served = Served::start("test");
    let (mut talk, mut other) = (listener(&served), served.connect());
    for watch in ["mon_heartbeat(\"h\",0.05,\"repeat\",1)", "mon_heartbeat(\"of me\",60)"] {
        let reply = talk.request(&format!("7 [0] {watch}"));
        assert!(reply.starts_with("7 [0] mon_heartbeat(0,"), "{reply}");
    }
    assert!(alert_line(&mut talk).starts_with("2 [0] print(0,[\"h\",1,"));
    let listed = other.request("1 [0] mon_list()");
    assert!(
        listed.contains("[\"id\",\"h\",\"uid\",0,") && listed.contains("\"of me\""),
        "{listed}"
    );
    // Cancelled by another tool: its own tool gets the reason, and nothing after that.
    assert_eq!(other.request("2 [0] mon_cancel(\"h\")"), "2 [0] mon_cancel(0,[\"h\"])");
    let ended =
        std::iter::from_fn(|| talk.line()).find(|it| !it.starts_with("2 [0] print(0,[\"h\","));
    assert_eq!(ended.as_deref(), Some("4 [0] print(0,[\"h\",\"cancelled\"])"));
    assert_eq!(talk.request("8 [0] mon_cancel(\"\")"), "8 [0] mon_cancel(0,[\"of me\"])");
    assert_eq!(other.request("3 [0] mon_list()"), "3 [0] mon_list(0,[])");
    assert_eq!(talk.request("9 [0] mon_heartbeat(\"h\",60)"), "9 [0] mon_heartbeat(0,\"h\")");
    drop(talk);
    until(|| (other.request("4 [0] mon_list()") == "4 [0] mon_list(0,[])").then_some(()));
}

#[test]
fn an_alert_with_the_range_user_reaches_other_tools_and_clients_of_the_user() {
    let served = Served::start("test");
    let (mut talk, mut other) = (served.connect(), listener(&served));
    assert_eq!(other.request("7 [0] mon_list()"), "7 [0] mon_list(0,[])");
    let mut client = served.connect();
    let _hello = client.result("hello", "{}");
    let promise = "1 [0] mon_heartbeat(\"h\",0.05,\"range\",\"user\")";
    assert_eq!(talk.request(promise), "1 [0] mon_heartbeat(0,\"h\")");
    let line = alert_line(&mut other);
    assert!(line.starts_with("2 [0] print(0,[\"h\",1,-109,\"heartbeat\","), "{line}");
    assert_eq!(client.event()["alert"]["kind"], "heartbeat");
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let served = Served::with("[limits]\nperiod = \"1s\"\n");
    let mut talk = served.connect();
    assert_eq!(talk.request("1 [0] mon_heartbeat(\"h\",2)"), "1 [0] mon_heartbeat(0,\"h\")");
    for (request, want) in [
        (
            "mon_heartbeat(\"h\",2)",
            "mon_heartbeat(305,0,\"monitor \\\"h\\\" exists already: cancel it, or set \
             replace\")",
        ),
        ("mon_heartbeat(\"h\",2,\"replace\",1)", "mon_heartbeat(0,\"h\")"),
        (
            "mon_heartbeat(\"\",0.5)",
            "mon_heartbeat(403,0,\"every_ns: the shortest is 1000 ms, the limit \\\"period\\\"\")",
        ),
        (
            "mon_heartbeat(\"\",2,\"drop\",1)",
            "mon_heartbeat(105,0,\"unknown option \\\"drop\\\"; did you mean \\\"drops\\\"?\")",
        ),
        (
            "mon_heartbeat(\"\",2,\"drops\",-1)",
            "mon_heartbeat(105,0,\"heartbeat: drops: invalid value: integer `-1`, expected u32\")",
        ),
        ("mon_heartbeat(\"\",2,\"pid\",99)", "mon_heartbeat(300,0,\"no process 99\")"),
        (
            "mon_file(\"\",\"log\",2,\"size\",1)",
            "mon_file(105,0,\"path \\\"log\\\": expected an absolute path\")",
        ),
        (
            "mon_file(\"\",\"/log\",0,\"size\",1)",
            "mon_file(105,0,\"every 0.0: expected seconds, more than 0\")",
        ),
        (
            "mon_file(\"h\",\"/log\",2,\"size\",1)",
            "mon_file(305,0,\"monitor \\\"h\\\" exists already: cancel it, or set \
             replace\")",
        ),
        ("mon_register(\"job\",-1)", "mon_register(105,0,\"rank -1: expected 0 or more\")"),
        (
            "mon_register(\"job\",4294967295)",
            "mon_register(105,0,\"rank 4294967295: the largest is 4294967244\")",
        ),
        ("mon_register(\"job\",0,\"pid\",99)", "mon_register(300,0,\"no process 99\")"),
    ] {
        assert_eq!(talk.request(&format!("2 [0] {request}")), format!("2 [0] {want}"));
    }
}

#[test]
fn without_a_service_alerts_occur_too() {
    let (folder, mut local) = (Folder::new(), monitor());
    let path = folder.join("log");
    write(&path, "1");
    let watch = format!("5 [0] mon_file(\"f\",\"{}\",0.02,\"modify\",1)", path.display());
    local.args(["ask", "--local", "--backend", "test", "--count", "2"]);
    local.args(["1 [0] mon_alerted(\"\"): 2 [0] print($1,$4)", "3 [0] enable(1)"]);
    local.args(["4 [0] mon_heartbeat(\"h\",0.02)", &watch]);
    let text = String::from_utf8(local.output().unwrap().stdout).unwrap();
    let mut lines: Vec<&str> = text.lines().filter(|it| it.starts_with("2 ")).collect();
    lines.sort_unstable();
    let want = ["2 [0] print(0,[\"f\",\"file\"])", "2 [0] print(0,[\"h\",\"heartbeat\"])"];
    assert_eq!(lines, want, "{text}");
}
