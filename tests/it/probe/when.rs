//! `monitor when`: a line for each event, and the table at the end.

use super::fixture::Build;
use crate::deadline;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::Folder;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// What the program exits with after the calls that an argument asks for.
const CODE: i32 = 3;

fn program(test: &str) -> Option<PathBuf> {
    let words = ["-O1", "-fno-builtin"];
    Build { test, source: "calls.c", product: "calls", words: &words }.done()
}

fn when(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.arg("when").args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Starts a target that waits for commands, and `monitor when` watching it.
fn watched(program: PathBuf, words: &[&str]) -> (Guarded, Guarded) {
    let mut target = Guarded::run(&mut Command::new(program));
    assert_eq!(target.line(), "ready");
    let mut watch = watch(&target, words);
    wait_until_watching(&mut watch);
    (target, watch)
}

/// Starts `monitor when` with these words and the process of a target.
pub fn watch(target: &Guarded, words: &[&str]) -> Guarded {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.arg("when").args(words).args(["--pid", &target.pid().0.to_string()]);
    Guarded::run(command.stderr(Stdio::piped()))
}

/// Waits until `monitor when` prints that it watches.
pub fn wait_until_watching(watch: &mut Guarded) {
    let mut lines = BufReader::new(watch.0.stderr.as_mut().unwrap()).lines();
    let is_it = |line: &String| line.contains("watching");
    assert!(lines.by_ref().map(Result::unwrap).any(|line| is_it(&line)));
}

#[test]
fn root_a_command_is_watched_from_its_first_instruction() {
    const TEST: &str = "root_a_command_is_watched_from_its_first_instruction";
    if !granted(TEST) {
        return;
    }
    let Some(path) = program(TEST) else { return };
    let path = path.to_str().unwrap();
    let output = when(&["call libc:open", "print,count,time", "--", path, "23"]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(CODE), "{out}{err}");
    let calls: Vec<&str> = out.lines().filter(|it| it.contains("/nonexistent/")).collect();
    assert_eq!(calls.len(), 23, "{out}");
    let last = "libc:open(path=\"/nonexistent/22\", flags=O_RDWR|O_CREAT)";
    assert!(calls[22].ends_with(last), "{}", calls[22]);
    let row: Vec<&str> = out.lines().last().unwrap().split_whitespace().collect();
    assert_eq!((&row[..3], row.len()), (&["call", "libc:open", "23"][..], 5), "{out}");
}

/// Creates a pipe that is full.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while writer.write(b"x").is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    (reader, writer)
}

#[test]
fn root_a_waiting_command_ends_when_the_monitor_is_killed() {
    const TEST: &str = "root_a_waiting_command_ends_when_the_monitor_is_killed";
    if !granted(TEST) {
        return;
    }
    let folder = Folder::new();
    let marker = folder.join("marker");
    // The monitor blocks while printing that it watches, just before it starts the command.
    let (_reader, full) = full_pipe();
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.args(["when", "exec", "print", "--", "touch", marker.to_str().unwrap()]).stderr(full);
    let mut watch = Guarded::run(&mut command);
    let pid = watch.pid().0;
    let children = format!("/proc/{pid}/task/{pid}/children");
    let state = |child: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    let child = deadline::until(|| {
        let children = std::fs::read_to_string(&children).unwrap();
        let child = children.split_whitespace().next()?.to_owned();
        let comm = std::fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
        (comm == "sh\n" && matches!(state(&child)?, 'S' | 'T')).then_some(child)
    });
    watch.0.kill().unwrap();
    let _status = watch.0.wait().unwrap();
    deadline::until(|| matches!(state(&child), None | Some('Z' | 'X')).then_some(()));
    assert!(!marker.exists());
}

#[test]
fn root_signals_are_printed_and_counted_by_name() {
    const TEST: &str = "root_signals_are_printed_and_counted_by_name";
    if !granted(TEST) {
        return;
    }
    let Some(path) = program(TEST) else { return };
    let words = ["signal WINCH,USR1", "print,count", "--lines", "23"];
    let (mut target, mut watch) = watched(path, &words);
    target.send_line("raise 23");
    assert_eq!(target.line(), "done");
    let lines: Vec<String> = (0..26).map(|_| watch.line()).collect();
    assert!(lines[..23].iter().all(|it| it.ends_with("calls SIGWINCH")), "{lines:?}");
    assert!(lines[24].starts_with("SIGWINCH") && lines[25].starts_with("SIGUSR1"), "{lines:?}");
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
}

#[test]
fn root_a_process_is_stopped_when_it_calls_abort() {
    const TEST: &str = "root_a_process_is_stopped_when_it_calls_abort";
    if !granted(TEST) {
        return;
    }
    let Some(path) = program(TEST) else { return };
    let (mut target, mut watch) = watched(path, &["call abort", "print,stop", "--lines", "1"]);
    target.send_line("abort 1");
    assert!(watch.line().ends_with("abort()"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid().0)).unwrap();
    assert!(status.contains("State:\tT"), "{status}");
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
}

#[test]
fn root_json_output_has_an_object_for_each_event_and_a_summary() {
    const TEST: &str = "root_json_output_has_an_object_for_each_event_and_a_summary";
    if !granted(TEST) {
        return;
    }
    let Some(path) = program(TEST) else { return };
    let path = path.to_str().unwrap();
    let words = ["call libc:open", "print,time", "--format", "json", "--", path, "23"];
    let output = when(&words);
    let lines = text(&output.stdout);
    let all: Vec<Value> = lines.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    let is_ours = |it: &&Value| {
        it["values"][0]["value"].as_str().is_some_and(|it| it.starts_with("/nonexistent/"))
    };
    let calls: Vec<&Value> = all.iter().filter(is_ours).collect();
    assert_eq!(calls.len(), 23, "{lines}");
    assert_eq!(
        (&calls[22]["event"], &calls[22]["function"]),
        (&json!("call"), &json!("libc:open"))
    );
    assert_eq!(calls[22]["values"][0], json!({ "name": "path", "value": "/nonexistent/22" }));
    let flags = json!({ "name": "flags", "value": 66, "shown": "O_RDWR|O_CREAT" });
    assert_eq!(calls[22]["values"][1], flags);
    assert!(calls[22]["time_unix_ns"].as_u64() > Some(1_700_000_000_000_000_000));
    let last = all.last().unwrap();
    assert_eq!((&last["event"], &last["lost"]), (&json!("summary"), &json!(0)));
    let count = &last["counts"][0];
    assert_eq!((&count["what"], &count["count"]), (&json!("call libc:open"), &json!(23)));
    assert!(count["p50_ns"].as_u64() <= count["p99_ns"].as_u64());
}

#[test]
fn root_json_output_has_the_exit_code_of_a_process() {
    if !granted("root_json_output_has_the_exit_code_of_a_process") {
        return;
    }
    let words = ["end", "print", "--format", "json", "--", "/bin/sh", "-c", "exit 3"];
    let lines = text(&when(&words).stdout);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!((&first["event"], &first["exit_code"]), (&json!("end"), &json!(3)), "{lines}");
}

#[test]
fn root_a_function_that_no_process_has_is_named_with_the_nearest_one_and_is_no_success() {
    const TEST: &str =
        "root_a_function_that_no_process_has_is_named_with_the_nearest_one_and_is_no_success";
    if !granted(TEST) {
        return;
    }
    let process = Guarded::run(Command::new("sleep").arg("1000"));
    let pid = process.pid().0.to_string();
    for (event, rest) in [("return opne", ["--", "true"]), ("call libc:opne", ["--pid", &pid])] {
        let output = when(&[&[event, "count"], &rest[..]].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(8), "{event} {rest:?}: {error}");
        assert!(error.contains("; did you mean open?"), "{event} {rest:?}: {error}");
    }
}

#[test]
fn root_each_function_of_a_list_is_counted() {
    const TEST: &str = "root_each_function_of_a_list_is_counted";
    if !granted(TEST) {
        return;
    }
    let Some(path) = program(TEST) else { return };
    let path = path.to_str().unwrap();
    let counts = |event: &str, code| {
        let output = when(&[event, "count", "--", path, "23"]);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{out}{err}");
        let rows = out.lines().skip(1).map(|row| {
            let words: Vec<&str> = row.split_whitespace().collect();
            (words[1].to_owned(), words[2].to_owned())
        });
        rows.collect::<Vec<_>>()
    };
    let row = |name: &str, n: &str| (name.to_owned(), n.to_owned());
    let rows = counts("call libc:open, libc:abort", CODE);
    assert_eq!(rows, [row("libc:open", "23"), row("libc:abort", "0")]);
    // What was not watched has no count, and the code is that of the command, which failed.
    let rows = counts("call libc:open,libc:opne", CODE);
    assert_eq!(rows, [row("libc:open", "23"), row("libc:opne", "-")]);
}

#[test]
fn root_what_was_not_watched_is_reported_while_the_command_runs() {
    const TEST: &str = "root_what_was_not_watched_is_reported_while_the_command_runs";
    if !granted(TEST) {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.args(["when", "call libc:opne", "count", "--lines", "1", "--", "cat"]);
    let mut watch = Guarded::run(command.stderr(Stdio::piped()));
    let mut lines = BufReader::new(watch.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("monitor: not watched so far: ")).unwrap();
    assert!(line.ends_with("; did you mean open?"), "{line}");
}

#[test]
fn root_the_code_of_the_command_is_passed_on_and_a_command_that_runs_on_is_named() {
    const TEST: &str =
        "root_the_code_of_the_command_is_passed_on_and_a_command_that_runs_on_is_named";
    if !granted(TEST) {
        return;
    }
    for (script, code) in [("exit 3", 3), ("kill -TERM $$", 128 + 15)] {
        let output = when(&["exec", "count", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{script}");
    }
    let output = when(&["exec", "--for", "100ms", "--terminate", "--", "sleep", "1000"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    assert!(error.contains("--for is reached: process "), "{error}");
    assert!(error.ends_with(" was ended with SIGTERM\n"), "{error}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    let words = ["when", "exec", "count", "--for", "100ms", "--", "sleep", "1000"];
    let command = command.args(words).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut watch = command.spawn().unwrap();
    let mut lines = BufReader::new(watch.stderr.take().unwrap()).lines().map(Result::unwrap);
    let end = " runs on, and is not watched any more; --terminate ends it";
    let begin = "monitor: --for is reached: process ";
    let number = |line: &str| line.strip_prefix(begin)?.strip_suffix(end)?.parse().ok();
    let pid: Option<i32> = lines.find_map(|line| number(&line));
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    let pid = rustix::process::Pid::from_raw(pid.unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn invalid_events_are_refused_before_the_command_is_started() {
    let error = |words: &[&str]| {
        let output = when(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        text(&output.stderr)
    };
    assert!(error(&["explode", "print", "--pid", "1"]).contains("unknown event"));
    assert!(error(&["exec", "dance", "--pid", "1"]).contains("unknown action"));
    assert!(error(&["signal", "time", "--pid", "1"]).contains("time needs a call"));
}
