//! `job stacks`: ranks at two places, and what a look must not change.

use super::{HYDRA, Launcher, OPEN_MPI, RunningJob, failed, printed, state};
use crate::deadline;
use crate::probe::mpi::{self, Library, Ranks};
use crate::root::privilege::{USER, able, skip};
use crate::root::workload::Guarded;
use crate::served::monitor;
use monitor_control::call_stacks::{CallStackReader, ProcessStacks, Threads};
use monitor_control::process_ref::ProcessRef;
use monitor_model::id::Pid;
use monitor_sys::ptrace;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn stacks(words: &[&str]) -> Value {
    let all = [&["job", "stacks"], words, &["--format", "json"]].concat();
    serde_json::from_str(&printed(&all)).unwrap()
}

/// Ranks and path of each class.
fn classes(stacks: &Value) -> Vec<(String, Vec<String>)> {
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    let class = |it: &Value| {
        (text(&it["ranks"]), it["path"].as_array().unwrap().iter().map(text).collect())
    };
    stacks["classes"].as_array().unwrap().iter().map(class).collect()
}

/// Rank 0 reads its standard input, and the others wait for it in a broadcast.
#[track_caller]
fn check_two_places(test: &str, library: &Library) {
    let Some(mut ranks) = Ranks::start_many(test, library, 3) else { return };
    let job = ranks.starter_pid().0.to_string();
    deadline::until(|| {
        let classes = classes(&stacks(&[&job]));
        let [(most, wait), (one, read)] = &classes[..] else { return None };
        let waits = matches!(wait.last()?.as_str(), "MPI_Bcast" | "PMPI_Bcast");
        let reads = read.iter().any(|it| it.contains("fgets"));
        let at_main = [wait, read].iter().all(|it| it.iter().any(|name| name == "main"));
        (most == "1-2" && one == "0" && waits && reads && at_main).then_some(())
    });
    let some = stacks(&[&format!("{job}:0"), "--count", "2", "--every", "1ms"]);
    assert_eq!(classes(&some).len(), 1);
    // It stayed in read(2).
    let nodes = some["nodes"].as_array().unwrap();
    assert!(nodes.iter().all(|it| it["ranks"] == "0" && it["stayed"] == true), "{some}");
    // The program goes on as before.
    ranks.run("fill 3");
    ranks.end();
}

#[test]
fn a_rank_that_is_elsewhere_has_a_class_of_its_own() {
    const TEST: &str = "a_rank_that_is_elsewhere_has_a_class_of_its_own";
    check_two_places(TEST, &mpi::OPEN_MPI);
    check_two_places(TEST, &mpi::MPICH);
}

/// The frames of each thread that eu-stack(1) sees: offsets in the files, innermost first.
fn by_eu_stack(pid: Pid) -> Vec<(i32, Vec<u64>)> {
    let got = Command::new("eu-stack").args(["-b", "-p", &pid.0.to_string()]).output().unwrap();
    let mut threads: Vec<(i32, Vec<u64>)> = Vec::new();
    for line in String::from_utf8(got.stdout).unwrap().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["TID", tid] => {
                threads.push((tid.trim_end_matches(':').parse().unwrap(), Vec::new()));
            }
            // `[build-id]@0xLOAD+0xOFFSET`, below the frame.
            [place] if place.starts_with('[') => {
                let offset = place.rsplit_once("+0x").unwrap().1;
                let (_, frames) = threads.last_mut().unwrap();
                frames.push(u64::from_str_radix(offset, 16).unwrap());
            }
            _ => {}
        }
    }
    threads.retain(|(_, frames)| !frames.is_empty());
    threads
}

#[test]
fn frames_are_those_of_eu_stack() {
    const TEST: &str = "frames_are_those_of_eu_stack";
    let is_there = Command::new("eu-stack").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !is_there {
        return skip(TEST, "needs eu-stack (apt install elfutils)");
    }
    let Some(ranks) = Ranks::start_many(TEST, &mpi::OPEN_MPI, 2) else { return };
    let process = ProcessRef::open_current(ranks.pids[0]).unwrap();
    let want = deadline::until(|| {
        let threads = by_eu_stack(ranks.pids[0]);
        // All of them wait by now: two of Open MPI, and one that reads.
        (threads.len() >= 3 && threads == by_eu_stack(ranks.pids[0])).then_some(threads)
    });
    let all = CallStackReader::new(false).read(&[process.id], Threads::All).remove(0).unwrap();
    let mut got = offsets(&all);
    got.sort_unstable();
    let mut want = want;
    want.sort_unstable();
    assert_eq!(got, want);
    assert!(all.threads.iter().all(|it| it.is_whole) && all.missing.is_empty());
}

fn offsets(stacks: &ProcessStacks) -> Vec<(i32, Vec<u64>)> {
    let frames = stacks.threads.iter();
    frames.map(|it| (it.tid, it.frames.iter().map(|it| it.place.address).collect())).collect()
}

fn start(test: &str, launcher: &Launcher, script: &str) -> Option<RunningJob> {
    launcher.start(test, 2, script)
}

fn send(pid: Pid, signal: Signal) {
    let pid = rustix::process::Pid::from_raw(pid.0.cast_signed()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn a_job_that_is_stopped_by_a_signal_stays_stopped() {
    const TEST: &str = "a_job_that_is_stopped_by_a_signal_stays_stopped";
    let Some(job) = start(TEST, &HYDRA, "exec sleep 1000") else { return };
    let ranks = job.ranks();
    ranks.iter().for_each(|pid| send(*pid, Signal::STOP));
    deadline::until(|| ranks.iter().all(|pid| state(*pid) == 'T').then_some(()));
    assert_eq!(classes(&stacks(&[&job.pid(), "--count", "3", "--every", "1ms"])).len(), 1);
    deadline::until(|| ranks.iter().all(|pid| state(*pid) == 'T').then_some(()));
    ranks.iter().for_each(|pid| send(*pid, Signal::CONT));
    deadline::until(|| ranks.iter().all(|pid| state(*pid) == 'S').then_some(()));
}

#[test]
fn signals_that_arrive_while_a_thread_is_stopped_are_delivered() {
    const TEST: &str = "signals_that_arrive_while_a_thread_is_stopped_are_delivered";
    let script = "trap 'echo got' USR1; echo ready; while :; do :; done";
    let Some(mut job) = start(TEST, &OPEN_MPI, script) else { return };
    let ranks = job.ranks();
    for _ in &ranks {
        assert_eq!(job.launcher.line(), "ready");
    }
    let words = ["job", "stacks", &job.pid(), "--count", "1000", "--every", "1ms"];
    let mut looking = monitor().args(words).stdout(Stdio::null()).spawn().unwrap();
    for round in 0..100 {
        send(ranks[round % 2], Signal::USR1);
        assert_eq!(job.launcher.line(), "got");
    }
    looking.kill().unwrap();
    let _killed = looking.wait().unwrap();
    // What the killed one traced goes on, too.
    for pid in ranks {
        send(pid, Signal::USR1);
        assert_eq!(job.launcher.line(), "got");
    }
}

#[test]
fn a_rank_that_another_process_traces_is_named_and_the_others_are_shown() {
    const TEST: &str = "a_rank_that_another_process_traces_is_named_and_the_others_are_shown";
    let Some(job) = start(TEST, &OPEN_MPI, "exec sleep 1000") else { return };
    let ranks = job.ranks();
    let traced = ranks[1].0;
    // The kernel detaches it when this thread ends.
    ptrace::seize_alone(traced.cast_signed()).unwrap();
    let words = ["job", "stacks", &job.pid(), "--format", "json"];
    let got = monitor().args(words).output().unwrap();
    let all: Value = serde_json::from_slice(&got.stdout).unwrap();
    let own = std::process::id();
    let why = format!(
        "rank 1 (process {traced}): process {own} traces it already; detach that tracer first"
    );
    assert_eq!((got.status.code(), &all["notes"]), (Some(4), &Value::from(vec![why.clone()])));
    assert_eq!(classes(&all)[0].0, "0");
    let (code, message) = failed(monitor().args(["job", "stacks", &format!("{}:1", job.pid())]));
    assert_eq!((code, message), (Some(1), format!("monitor: {why}\n")));
}

#[test]
fn a_rank_that_a_job_lacks_is_named() {
    const TEST: &str = "a_rank_that_a_job_lacks_is_named";
    let Some(job) = start(TEST, &OPEN_MPI, "exec sleep 1000") else { return };
    let (code, message) = failed(monitor().args(["job", "stacks", &format!("{}:0,7", job.pid())]));
    assert_eq!(code, Some(2));
    assert!(message.ends_with(" has no rank 7 on this node: here are ranks 0-1\n"), "{message}");
}

/// A program whose debugging information is in a file that is a pipe without a writer.
fn program_with_a_pipe(folder: &Path) -> PathBuf {
    let [program, pipe, source] = ["waits", "waits.debug", "waits.c"].map(|it| folder.join(it));
    let text = "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n";
    std::fs::write(&source, text).unwrap();
    let run = |words: &[&str]| {
        let status = Command::new(words[0]).args(&words[1..]).current_dir(folder).status();
        assert!(status.unwrap().success(), "{words:?}");
    };
    let _absent = std::fs::remove_file(&pipe);
    run(&["cc", "-g", "-o", "waits", "waits.c"]);
    run(&["objcopy", "--only-keep-debug", "waits", "waits.debug"]);
    run(&["objcopy", "--strip-debug", "--add-gnu-debuglink=waits.debug", "waits"]);
    std::fs::remove_file(&pipe).unwrap();
    run(&["mkfifo", "waits.debug"]);
    program
}

#[test]
fn root_lines_are_not_looked_up_where_the_file_of_another_user_says() {
    const TEST: &str = "root_lines_are_not_looked_up_where_the_file_of_another_user_says";
    if !able(TEST) {
        return;
    }
    let namespace = format!("pipe-{}", std::process::id());
    // The other user may not enter the folders of the build.
    let folder = std::env::temp_dir().join(&namespace);
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new(program_with_a_pipe(&folder));
    command.env("PMIX_NAMESPACE", &namespace).env("PMIX_RANK", "0").uid(USER).gid(USER);
    let rank = Guarded::run(&mut command);
    deadline::until(|| super::listed(|it| it["id"] == *namespace));
    let all = stacks(&[&namespace, "--lines"]);
    let notes = all["notes"].to_string();
    assert!(notes.contains("--lines is ignored"), "{notes}");
    assert!(classes(&all)[0].1.iter().any(|it| it == "main"), "{all}");
    drop(rank);
    std::fs::remove_dir_all(folder).unwrap();
}
