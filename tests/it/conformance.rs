//! `monitor conformance`: against the service, against implementations that are wrong or silent,
//! and what remains when it is killed.

use crate::deadline::until;
use crate::root::privilege::granted;
use crate::served::{Folder, Served, monitor, write};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output};

fn command(socket: &Path) -> Command {
    let mut it = monitor();
    it.arg("conformance").arg("--socket").arg(socket);
    it
}

#[track_caller]
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"))
}

fn sentences<'a>(report: &'a Value, verdict: &str) -> Vec<&'a Value> {
    let all = report["sentences"].as_array().unwrap();
    all.iter().filter(|it| it["verdict"] == verdict).collect()
}

/// Answers each line of all connections; `None` for no answer.
fn serve(socket: &Path, answer: fn(&str) -> Option<String>) {
    let listener = UnixListener::bind(socket).unwrap();
    let session = move |stream: UnixStream| {
        let mut writer = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if let Some(answer) = answer(&line)
                && writeln!(writer, "{answer}").is_err()
            {
                return;
            }
        }
    };
    let _accepting = std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _serving = std::thread::spawn(move || session(stream));
        }
    });
}

/// The line, answered by a status of success for each service; `print` does its work.
fn acknowledged(line: &str) -> Option<String> {
    if line.contains(" print(") {
        return printed(line);
    }
    let basics = line.split(';').map(|it| it.split('(').next().unwrap_or_default().trim());
    Some(basics.map(|it| format!("{it}(0)")).collect::<Vec<_>>().join("; "))
}

#[test]
fn root_every_sentence_holds_for_the_service() {
    if !granted("root_every_sentence_holds_for_the_service") {
        return;
    }
    let served = Served::start("auto");
    let output = command(served.socket()).args(["--format", "json"]).output().unwrap();
    let report = json(&output);
    let failed = sentences(&report, "failed");
    assert!(failed.is_empty(), "{failed:#?}");
    let list =
        json(&command(served.socket()).args(["--list", "--format", "json"]).output().unwrap());
    let all = list["sentences"].as_array().unwrap();
    let n_by_socket = all.iter().filter(|it| it["verified"] == "socket").count();
    assert!(n_by_socket > 60, "{list}");
    assert_eq!(sentences(&report, "holds").len(), n_by_socket, "{report}");
    assert_eq!(output.status.code(), Some(0));
    // What was not run says why.
    for it in sentences(&report, "not_run") {
        assert!(it["needs"].as_str().is_some_and(|needs| !needs.is_empty()), "{it}");
    }
}

#[test]
fn an_implementation_that_does_nothing_is_reported() {
    let folder = Folder::new();
    let socket = folder.join("socket");
    serve(&socket, acknowledged);
    let mut run = command(&socket);
    let output = run.args(["--format", "json", "--timeout", "200ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    let report = json(&output);
    let failed = sentences(&report, "failed");
    assert!(failed.len() > 50, "{report}");
    let read = failed.iter().find(|it| it["sentence"].as_str().unwrap().contains("read_memory"));
    let read = read.expect("this sentence does not hold");
    assert_eq!(read["received"], "10 [0] write_memory(0); 11 [0] read_memory(0)");
    assert_eq!(report["summary"]["failed"], failed.len());
}

/// Runs one case against this implementation; its exit code and what it prints.
fn verdict(case: &str, answer: fn(&str) -> Option<String>) -> (i32, String) {
    let folder = Folder::new();
    let socket = folder.join("socket");
    serve(&socket, answer);
    write(&folder.join("case.txt"), case);
    let mut run = command(&socket);
    run.args(["--timeout", "200ms", "--cases"]).arg(folder.path());
    let output = run.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text)
}

const CASE: &str = "says 5.1 It prints.\n> 1 [{node}] print([1])\n~ 1 [{node}] print(0,[1])\n";

/// `print`, and a number of nodes.
fn printed(line: &str) -> Option<String> {
    let line = line.replace("print(", "print(0,").replace("nodes(", "nodes(0,1");
    Some(line.replace("dialect(\"strict\")", "dialect(102)"))
}

#[test]
fn one_reply_too_many_is_reported() {
    let (code, text) = verdict(CASE, printed);
    assert_eq!(code, 0, "{text}");
    assert_eq!(
        text,
        "5.1    ok        It prints.\n1 sentences: 1 hold, 0 FAILED, 0 not run, 0 deviations\n"
    );
    let twice = |line: &str| {
        let reply = printed(line)?;
        Some(if line.starts_with("1 ") { format!("{reply}\n{reply}") } else { reply })
    };
    let (code, text) = verdict(CASE, twice);
    assert_eq!(code, 9, "{text}");
    assert!(text.contains("expected  no other reply\n"), "{text}");
    assert!(text.contains("received  1 [0] print(0,[1])\n"), "{text}");
}

#[test]
fn a_reply_with_the_number_of_no_request_is_reported() {
    let (code, text) = verdict(CASE, |line| printed(line).map(|it| it.replace("1 [", "7 [")));
    assert_eq!(code, 9, "{text}");
    assert!(text.contains("received  7 [0] print(0,[1])\n"), "{text}");
}

#[test]
fn no_reply_in_time_is_reported() {
    let (code, text) = verdict(CASE, |line| printed(line).filter(|_| !line.starts_with("1 ")));
    assert_eq!(code, 9, "{text}");
    assert!(text.contains("received  no reply within 0.2 s\n"), "{text}");
}

#[test]
fn a_malformed_case_is_a_usage_error() {
    let (code, text) = verdict("> 1 [{node}] print([1])\n", printed);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("case.txt:1: this case shows no sentence"), "{text}");
}

#[test]
fn processes_of_a_killed_command_end() {
    let folder = Folder::new();
    let socket = folder.join("socket");
    // It never answers the request.
    serve(&socket, |line| printed(line).filter(|_| !line.starts_with("1 ")));
    let two = "process {1}\nprocess {2}\n";
    write(&folder.join("case.txt"), &CASE.replace("> 1", &format!("{two}> 1")));
    let mut run = command(&socket);
    run.args(["--timeout", "1h", "--cases"]).arg(folder.path());
    let mut child = run.spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let targets: Vec<String> = until(|| {
        let text = std::fs::read_to_string(&children).ok()?;
        let pids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        (pids.len() == 2 && pids.iter().all(|pid| executes_target(pid))).then_some(pids)
    });
    // A stopped process must end too.
    let stopped = Pid::from_raw(targets[0].parse().unwrap()).unwrap();
    kill_process(stopped, Signal::STOP).unwrap();
    child.kill().unwrap();
    let _status = child.wait().unwrap();
    until(|| (!targets.iter().any(|pid| executes_target(pid))).then_some(()));
}

fn executes_target(pid: &str) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).contains("conformance-target")
}
