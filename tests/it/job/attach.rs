//! `job attach`: daemons beside ranks, ranks that are held meanwhile, and what is killed.

use super::{HYDRA, Launcher, Noticed, OPEN_MPI, RunningJob, failed, has_ended, state};
use crate::deadline;
use crate::root::workload::Guarded;
use crate::served::monitor;
use monitor_model::id::Pid;
use rustix::process::{Signal, kill_process};
use std::process::Command;

/// Ranks that do nothing until they are ended.
const IDLE: &str = "exec sleep 1000";

fn attach(job: &RunningJob, options: &[&str]) -> Command {
    let mut command = monitor();
    command.args(["job", "attach", &job.pid()]).args(options);
    command
}

/// What a command prints, line by line in alphabetical order, and its exit code.
fn sorted(command: &mut Command) -> (Vec<String>, Option<i32>) {
    let got = command.output().unwrap();
    let text = String::from_utf8(got.stdout).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    (lines, got.status.code())
}

fn states(ranks: &[Pid]) -> String {
    ranks.iter().map(|pid| state(*pid)).collect()
}

#[track_caller]
fn check_variables(test: &str, launcher: &Launcher) {
    let Some(job) = launcher.start(test, 3, IDLE) else { return };
    let ranks = job.ranks();
    let id = job.listed().unwrap()["id"].as_str().unwrap().to_owned();
    let daemon = "echo $MONITOR_JOB_LOCAL_RANK of $MONITOR_JOB_RANKS in $MONITOR_JOB_ID \
                  $MONITOR_JOB_RUNTIME: $MONITOR_JOB_RANK is $MONITOR_JOB_PID";
    let want: Vec<String> = ranks[1..]
        .iter()
        .enumerate()
        .map(|(index, pid)| {
            let (rank, pid, runtime) = (index + 1, pid.0, launcher.runtime);
            format!("[{rank}] {index} of 1-2 in {id} {runtime}: {rank} is {pid}")
        })
        .collect();
    let mut command = monitor();
    command.args(["job", "attach", &format!("{id}:1-2"), "--daemon", daemon]);
    assert_eq!(sorted(&mut command), (want, Some(0)));
    let daemon = "echo $MONITOR_JOB_PIDS; echo no rank: $MONITOR_JOB_RANK";
    let all: Vec<String> = ranks.iter().map(|pid| pid.0.to_string()).collect();
    let want = vec![all.join(" "), "no rank:".to_owned()];
    assert_eq!(sorted(&mut attach(&job, &["--per", "node", "--daemon", daemon])), (want, Some(0)));
}

#[test]
fn daemons_find_their_ranks_in_their_environment() {
    const TEST: &str = "daemons_find_their_ranks_in_their_environment";
    check_variables(TEST, &OPEN_MPI);
    check_variables(TEST, &HYDRA);
}

#[test]
fn a_daemon_that_fails_gives_its_code() {
    const TEST: &str = "a_daemon_that_fails_gives_its_code";
    let Some(job) = HYDRA.start(TEST, 3, IDLE) else { return };
    let daemon = "test $MONITOR_JOB_RANK != 1 || exit 7";
    let (code, message) = failed(&mut attach(&job, &["--daemon", daemon]));
    assert_eq!(code, Some(7));
    assert_eq!(message, "monitor: the daemon of rank 1 ended with exit status: 7\n");
    let (code, message) = failed(&mut attach(&job, &[]));
    assert_eq!(code, Some(2));
    assert_eq!(message, "monitor: nothing to do: give --hold, --daemon COMMAND, or both\n");
    // All of its output is there, whichever line has no end.
    let daemon = "seq 1 20000; printf last";
    let (lines, code) = sorted(&mut attach(&job, &["--per", "node", "--daemon", daemon]));
    assert_eq!((lines.len(), code), (20_001, Some(0)));
}

#[test]
fn ranks_are_held_while_daemons_run() {
    const TEST: &str = "ranks_are_held_while_daemons_run";
    let Some(job) = OPEN_MPI.start(TEST, 2, IDLE) else { return };
    let ranks = job.ranks();
    let daemon = "grep State /proc/$MONITOR_JOB_PID/status";
    let (lines, code) = sorted(&mut attach(&job, &["--hold", "--daemon", daemon]));
    assert_eq!((lines.len(), code), (2, Some(0)));
    assert!(lines.iter().all(|it| it.ends_with("T (stopped)")), "{lines:?}");
    deadline::until(|| (states(&ranks) == "SS").then_some(()));
}

/// The process of a daemon that its command has printed.
fn daemon_of(command: &mut Guarded) -> Pid {
    Pid(command.line().parse().unwrap())
}

#[test]
fn ranks_run_on_and_daemons_end_when_the_command_ends() {
    const TEST: &str = "ranks_run_on_and_daemons_end_when_the_command_ends";
    let Some(job) = OPEN_MPI.start(TEST, 2, IDLE) else { return };
    let ranks = job.ranks();
    let options = ["--hold", "--per", "node", "--daemon", "echo $$; exec sleep 1000"];
    for (signal, code) in [(Signal::KILL, None), (Signal::TERM, Some(143))] {
        let mut command = Guarded::run(&mut attach(&job, &options));
        let daemon = daemon_of(&mut command);
        assert_eq!(states(&ranks), "TT");
        kill_process(rustix::process::Pid::from_child(&command.0), signal).unwrap();
        deadline::until(|| (has_ended(daemon) && states(&ranks) == "SS").then_some(()));
        assert_eq!(command.0.wait().unwrap().code(), code);
    }
    // Without a daemon, it lasts as long as the job.
    let mut command = Noticed::run(&mut attach(&job, &["--hold"]));
    let notice = command.notice();
    assert!(notice.contains(": held ranks 0-1 on "), "{notice}");
    assert_eq!(states(&ranks), "TT");
    kill_process(
        rustix::process::Pid::from_raw(job.launcher.pid().0.cast_signed()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
    ranks.iter().copied().for_each(super::kill);
    assert_eq!(command.end().1, Some(0));
}

#[test]
fn what_was_stopped_before_stays_stopped() {
    const TEST: &str = "what_was_stopped_before_stays_stopped";
    let Some(job) = HYDRA.start(TEST, 2, IDLE) else { return };
    let ranks = job.ranks();
    let first = rustix::process::Pid::from_raw(ranks[0].0.cast_signed()).unwrap();
    kill_process(first, Signal::STOP).unwrap();
    deadline::until(|| (states(&ranks) == "TS").then_some(()));
    let (_, code) = sorted(&mut attach(&job, &["--hold", "--daemon", "true"]));
    assert_eq!(code, Some(0));
    deadline::until(|| (states(&ranks) == "TS").then_some(()));
    kill_process(first, Signal::CONT).unwrap();
}
