//! The commands that need a daemon (`start`, `list`, `cancel`, `events`), and those that can use
//! one.

use crate::deadline::until;
use crate::served::Served;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[track_caller]
fn ran(mut command: Command) -> (Option<i32>, String, String) {
    let got = command.output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (got.status.code(), text(got.stdout), text(got.stderr))
}

/// A text without its numbers: the values of the test backend change with each reading.
fn shape(text: &str) -> String {
    let mut shape = text.replace(|it: char| it.is_ascii_digit(), "0");
    while shape.contains("00") {
        shape = shape.replace("00", "0");
    }
    shape.replace("0.0", "0")
}

#[test]
fn a_sample_of_the_daemon_equals_a_local_one() {
    let service = Served::start("test");
    for words in [
        "sample --format csv --fields comm,pid",
        "sample all --format json",
        "sample --group-by comm --format json --fields cpu_ns",
        "sample --group-by user --format csv --fields cpu_ns,rss_bytes",
    ] {
        let mut alone = service.command(words);
        alone.args(["--backend", "test"]);
        let (code, text, said) = ran(service.command(words));
        let (its_code, its_text, its_said) = ran(alone);
        assert_eq!((code, shape(&text), said), (its_code, shape(&its_text), its_said), "{words}");
    }
    let (code, groups, said) = ran(service.command("sample --group-by user"));
    assert_eq!((code, &*said), (Some(0), ""), "{groups}");
    assert!(groups.contains("1 group by user"), "{groups}");
    let (code, table, said) = ran(service.command("sample all"));
    assert_eq!((code, &*said), (Some(0), ""));
    assert!(table.starts_with("test-node  test, by the daemon  1 process "), "{table}");
    let mut alone = service.command("sample all --backend test");
    alone.env_remove("MONITOR_SOCKET");
    let titles =
        |text: &str| text.lines().filter(|it| it.contains("PID")).map(str::to_owned).next();
    assert_eq!(titles(&table), titles(&ran(alone).1));
}

#[test]
fn an_unknown_process_has_the_same_exit_code_as_without_a_daemon() {
    let service = Served::start("test");
    let none = ran(service.command("sample --pid 3 --format json"));
    assert_eq!(none, (Some(6), String::new(), "monitor: no process 3\n".into()));
    let csv = "time_unix_ns,pid,comm\n1767225600000000000,1234,test-stats\n";
    let some = ran(service.command("sample --pid 3,1234 --format csv --fields pid,comm"));
    assert_eq!((some.0, shape(&some.1)), (Some(6), shape(csv)));
    assert_eq!(some.2, "monitor: no process 3\n");
}

#[test]
fn missing_data_of_a_pmix_sample_is_reported_on_stderr_locally_and_by_the_daemon() {
    let service = Served::start("test");
    let words = "sample --backend test --pmix --fields reads disk nosuch";
    let local = ran(service.command(&format!("{words} --local")));
    let (code, sample, said) = ran(service.command(&words.replace("--backend test ", "")));
    for (code, sample, said) in [local, (code, sample, said)] {
        assert_eq!((code, sample.as_str()), (Some(4), "[]\n"), "{said}");
        assert!(said.starts_with("monitor: no disk nosuch"), "{said:?}");
    }
    let (code, _, said) = ran(service.command("sample --pmix --pid 1234,99 --fields rss_bytes"));
    assert_eq!((code, said.as_str()), (Some(6), "monitor: no process 99\n"));
}

#[test]
fn a_watch_by_the_daemon_has_rates_and_its_count() {
    let service = Served::start("test");
    let (code, text, said) =
        ran(service.command("watch --every 20ms --count 3 --format json --fields cpu_percent"));
    assert_eq!((code, text.lines().count()), (Some(0), 3));
    // A busy machine may be late for the next reading, and says so.
    assert!(said.lines().all(|line| line.contains("readings skipped")), "{said}");
    assert!(!text.lines().next().is_some_and(|line| line.contains("cpu_percent")));
    assert!(text.lines().last().is_some_and(|line| line.contains("cpu_percent")));
}

#[test]
fn a_limit_of_the_daemon_is_reported_with_the_local_alternative() {
    let service = Served::start("test");
    let (code, _, said) = ran(service.command("watch --every 1ms"));
    assert_eq!(code, Some(1));
    let want = "the shortest is 10 ms, the limit \"period\"; --local reads without the daemon\n";
    assert!(said.ends_with(want), "{said}");
}

#[test]
fn a_named_daemon_must_answer() {
    for words in ["sample", "watch", "run -- true", "list", "cancel --all", "events"] {
        let mut it = Command::new(env!("CARGO_BIN_EXE_monitor"));
        it.args(words.split(' ')).env_remove("MONITOR_BACKEND").env("MONITOR_SOCKET", "/no/sock");
        let (code, text, said) = ran(it);
        assert_eq!((code, &*text), (Some(7), ""), "{words}");
        assert!(said.starts_with("monitor: no daemon answers at /no/sock: "), "{said}");
        assert!(said.ends_with("start it with monitor serve, or name its socket with --socket\n"));
    }
}

#[test]
fn a_detached_monitor_is_listed_read_and_cancelled() {
    let service = Served::start("test");
    let (code, said, _) =
        ran(service.command("start job node --fields load1 --every 20ms --detach --lease 1m"));
    assert_eq!(code, Some(0));
    assert!(said.contains("read:   monitor events job"), "{said}");
    until(|| {
        let (_, text, _) = ran(service.command("list --format json"));
        let listed: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        (listed[0]["id"] == "job" && listed[0]["kept"].as_u64() > Some(1)).then_some(())
    });
    let (code, text, _) = ran(service.command("events job"));
    assert_eq!(code, Some(0));
    assert!(text.starts_with("job #1: test-node  test, by the daemon  "), "{text}");
    assert!(text.contains("\nLOAD1 "), "{text}");
    until(|| {
        let (_, text, _) = ran(service.command("list --format json"));
        (!text.contains("\"kept\":0")).then_some(())
    });
    let (code, text, _) = ran(service.command("events job --format json"));
    assert_eq!(code, Some(0));
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    assert!(!lines.is_empty() && lines[0]["id"] == "job" && lines[0]["sample"].is_object());
    let again = ran(service.command("start job node --fields load1 --every 1s"));
    assert_eq!(again.0, Some(1));
    assert!(again.2.contains("exists already"), "{}", again.2);
    assert_eq!(ran(service.command("cancel job")), (Some(0), "job\n".into(), String::new()));
    assert_eq!(ran(service.command("cancel job")).0, Some(6));
}

#[test]
fn a_monitor_in_the_foreground_ends_with_an_interrupt() {
    let service = Served::start("test");
    let mut child = service
        .command("start a --every 20ms --format json --fields comm")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("text");
    assert!(line.starts_with(r#"{"id":"a","seq":0,"#), "{line}");
    let kill = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    until(|| (ran(service.command("list --format json")).1 == "[]\n").then_some(()));
}

#[test]
fn a_watch_waits_for_its_daemon_up_to_a_limit() {
    let mut service = Served::start("test");
    let mut child = service
        .command("watch --every 20ms --format json --fields comm")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut err = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    service.kill();
    let mut says = |what: &str| {
        let mut said = String::new();
        // A machine that is busy may have said that readings were skipped.
        while !said.contains(what) {
            said.clear();
            assert!(err.read_line(&mut said).expect("text") > 0, "it never said {what:?}");
        }
    };
    says("connection to the daemon lost; waiting for it");
    service.restart();
    says("no samples of that time");
    service.kill();
    drop(std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink())));
    assert_eq!(child.wait().expect("it ends").code(), Some(7));
}

#[test]
fn a_run_that_the_daemon_cannot_count_is_counted_locally() {
    let service = Served::start("test");
    let mut command = service.command("run -- sh -c");
    command.arg("exit 3");
    let (code, _, said) = ran(command);
    assert_eq!(code, Some(3));
    assert!(said.contains("counting without it"), "{said}");
}

#[test]
fn a_run_whose_daemon_dies_reports_the_usage_from_wait() {
    let mut service = Served::start("procfs");
    let mut command = service.command("run --format json -- sh -c");
    command.arg("echo begun; read line; exit 5");
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program runs");
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    assert_eq!(line, "begun\n");
    service.kill();
    drop(child.stdin.take());
    line.clear();
    out.read_line(&mut line).expect("text");
    let report: serde_json::Value = serde_json::from_str(&line).expect("a report");
    assert_eq!(child.wait().expect("it ends").code(), Some(5));
    assert_eq!((&report["backend"], &report["exit_code"]), (&"wait".into(), &5.into()));
    assert!(report["cpu_ns"].as_u64().is_some_and(|cpu| cpu > 0));
    assert!(report["notes"].to_string().contains("only CPU and memory are known"), "{report}");
}

#[test]
fn pmix_events_of_a_monitor_are_printed_as_text() {
    let service = Served::start("test");
    let words = "start p --every 50ms --count 2 --detach --lease 1m --pmix --fields PMIX_PROC_RSS";
    let (code, _, said) = ran(service.command(words));
    assert_eq!((code, &*said), (Some(0), ""));
    let (code, text, said) = ran(service.command("events p --follow"));
    assert_eq!((code, &*said), (Some(0), ""));
    let want = "p #0:\npmix.proc.res\n  pmix.ppid 0\n  pmix.hname test-node\n  \
                monitor.start_time_ns 0\n  pmix.proc.rss 0\n  pmix.proc.samptime 0\n\n";
    assert!(shape(&text).starts_with(want), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
}
