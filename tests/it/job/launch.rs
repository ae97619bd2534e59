//! `job launch`: ranks that are held at exec, the status of the launcher, and what is killed.

use super::gate::own_children;
use super::{HYDRA, Launcher, Noticed, OPEN_MPI, failed, kill, listed, printed, ranks_of, state};
use crate::deadline;
use crate::root::privilege::skip;
use crate::root::workload::Guarded;
use crate::served::monitor;
use monitor_model::id::Pid;
use procfs::process::Process;
use rustix::process::{Signal, kill_process};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

/// `job launch` of a launcher.
pub fn launch(options: &[&str], launcher: &[&str]) -> Command {
    let mut command = monitor();
    command.args(["job", "launch"]).args(options).arg("--").args(launcher);
    command
}

/// The status of a process.
pub fn status(pid: Pid) -> procfs::process::Status {
    Process::new(pid.0.cast_signed()).unwrap().status().unwrap()
}

#[test]
fn a_tracer_that_is_killed_is_noticed_and_its_launcher_runs_on() {
    let script = "echo begins; read line; echo ends";
    let mut launched = Noticed::run(&mut launch(&["--stop", "exec"], &["sh", "-c", script]));
    assert_eq!(launched.command.line(), "begins");
    let tracers = own_children(launched.command.pid().0.cast_signed());
    assert_eq!(tracers.len(), 1);
    kill(Pid(tracers[0].cast_unsigned()));
    let notice = launched.notice();
    assert!(
        notice.starts_with("monitor: the process that holds the ranks was killed: "),
        "{notice}"
    );
    launched.command.send_line("on");
    assert_eq!(launched.command.line(), "ends");
    assert_eq!(launched.end(), (String::new(), Some(137)));
}

/// Ranks do nothing until they are released; then the job ends with its own status.
#[track_caller]
fn check_exec(test: &str, launcher: &Launcher) {
    if !Path::new(launcher.starter).exists() {
        return skip(test, &format!("needs {}", launcher.packages));
    }
    // Rank 0 has the standard input. Open MPI ends the others as soon as it fails.
    let script = "echo ran; if [ $RANK = 0 ]; then read line; exit 3; fi";
    let script = script.replace("$RANK", &format!("${}", launcher.rank));
    let words = ["-n", "3", "sh", "-c", &script];
    let all = [&[launcher.starter], launcher.words, &words].concat();
    let mut launched = Guarded::run(&mut launch(&["--stop", "exec"], &all));
    // Those of other tests have other launchers.
    let is_it = |it: &serde_json::Value| {
        it["state"] == "stopped" && it["local_ranks"] == 3 && is_below(it, &launched)
    };
    let job = deadline::until(|| listed(is_it));
    let id = job["id"].as_str().unwrap();
    let ranks = ranks_of(id);
    let launcher_pid = Pid(u32::try_from(job["launcher_pid"].as_u64().unwrap()).unwrap());
    assert_eq!((ranks.len(), &job["runtime"]), (3, &launcher.runtime.into()));
    // A job is also listed as stopped while its ranks wait in stops of the tracer. Then nothing is
    // traced any longer.
    deadline::until(|| {
        let traced = ranks.iter().chain([&launcher_pid]).map(|pid| status(*pid).tracerpid);
        let is_free = traced.sum::<i32>() == 0;
        (is_free && ranks.iter().all(|pid| state(*pid) == 'T')).then_some(())
    });
    let text = printed(&["job", "release", id]);
    assert!(text.contains(": released ranks 0-2 on "), "{text}");
    assert_eq!([launched.line(), launched.line(), launched.line()], ["ran"; 3]);
    launched.send_line("fail");
    // Hydra fails if its input ends at the same time as the ranks.
    let _open = launched.0.stdin.take();
    assert_eq!(launched.0.wait().unwrap().code(), Some(3));
}

/// Whether the launcher of a job is below this process: the tracer is between them.
fn is_below(job: &serde_json::Value, command: &Guarded) -> bool {
    let parent = |pid: i32| Some(Process::new(pid).ok()?.stat().ok()?.ppid);
    let pid = job["launcher_pid"].as_u64().and_then(|it| i32::try_from(it).ok());
    pid.and_then(parent).and_then(parent) == Some(command.pid().0.cast_signed())
}

#[test]
fn ranks_are_held_before_their_first_instruction() {
    const TEST: &str = "ranks_are_held_before_their_first_instruction";
    check_exec(TEST, &OPEN_MPI);
    check_exec(TEST, &HYDRA);
}

/// A launcher of two ranks, which are shells; it starts the second one at a line.
const SLOW: &str = "export PMIX_NAMESPACE=$1 OMPI_COMM_WORLD_LOCAL_SIZE=2
    PMIX_RANK=0 sh -c 'echo zero; exec sleep 1000' &
    read line
    PMIX_RANK=1 sh -c 'echo one; exec sleep 1000' &
    wait";

fn slow(namespace: &str, options: &[&str]) -> Guarded {
    Guarded::run(&mut launch(options, &["sh", "-c", SLOW, "sh", namespace]))
}

#[test]
fn ranks_are_held_at_the_program_that_is_named() {
    let namespace = format!("named-{}", std::process::id());
    let mut launched = slow(&namespace, &["--stop", "exec", "--stop-at", "sleep"]);
    assert_eq!(launched.line(), "zero");
    launched.send_line("go");
    assert_eq!(launched.line(), "one");
    let job = deadline::until(|| listed(|it| it["id"] == *namespace && it["state"] == "stopped"));
    assert_eq!(job["local_ranks"], 2);
    let ranks = ranks_of(&namespace);
    for pid in &ranks {
        let program = Process::new(pid.0.cast_signed()).unwrap().exe().unwrap();
        assert_eq!(program.file_name().unwrap(), "sleep");
    }
    ranks.into_iter().for_each(kill);
    assert_eq!(launched.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_job_runs_if_the_command_is_killed_before_all_ranks_are_there() {
    let namespace = format!("killed-{}", std::process::id());
    let mut launched = slow(&namespace, &["--stop", "exec"]);
    let zero = deadline::until(|| {
        let zero = listed(|it| it["id"] == *namespace).map(|_| ranks_of(&namespace))?;
        // It waits for the other one.
        zero.first().copied().filter(|pid| state(*pid) == 't')
    });
    launched.0.kill().unwrap();
    assert_eq!(launched.line(), "zero");
    launched.send_line("go");
    assert_eq!(launched.line(), "one");
    deadline::until(|| (state(zero) == 'S').then_some(()));
    let ranks = deadline::until(|| Some(ranks_of(&namespace)).filter(|it| it.len() == 2));
    ranks.into_iter().for_each(kill);
}

#[test]
fn a_launcher_without_ranks_ends_with_its_own_status() {
    let got = launch(&["--stop", "exec"], &["sh", "-c", "exit 5"]).output().unwrap();
    let want = "monitor: the launcher ended before all ranks of this node were held\n";
    assert_eq!((got.status.code(), String::from_utf8(got.stderr).unwrap()), (Some(5), want.into()));
    let got = launch(&[], &["sh", "-c", "kill -9 $$"]).output().unwrap();
    // It has taken the place of the command.
    assert_eq!(got.status.signal(), Some(9));
    for options in [&[][..], &["--stop", "exec"]] {
        let (code, message) = failed(&mut launch(options, &["/no/such/launcher"]));
        assert_eq!(code, Some(127));
        assert!(message.starts_with("monitor: cannot run /no/such/launcher: "), "{message}");
    }
}

#[test]
fn directives_change_the_environment_of_the_launcher() {
    let directives = ["--env", "set:NEW=1", "--env", "prepend:NEW=2", "--env", "unset:OLD"];
    let mut command = launch(&directives, &["sh", "-c", "echo $NEW $OLD"]);
    let got = command.env("OLD", "x").output().unwrap();
    assert_eq!(String::from_utf8(got.stdout).unwrap(), "2:1\n");
    let (code, message) = failed(&mut launch(&["--env", "set:=1"], &["true"]));
    assert_eq!(code, Some(2), "{message}");
    let (code, message) = failed(&mut launch(&["--stop", "exec", "--within", "1s"], &["true"]));
    assert_eq!((code, message.as_str()), (Some(2), "monitor: --within is for --stop init\n"));
}

#[test]
fn a_signal_to_the_command_reaches_the_launcher() {
    let script = "trap 'echo got; exit 4' TERM; echo ready; while :; do sleep 0.01; done";
    for options in [&[][..], &["--stop", "exec"]] {
        let mut launched = Guarded::run(&mut launch(options, &["sh", "-c", script]));
        assert_eq!(launched.line(), "ready");
        let pid = rustix::process::Pid::from_child(&launched.0);
        kill_process(pid, Signal::TERM).unwrap();
        assert_eq!(launched.line(), "got");
        assert_eq!(launched.0.wait().unwrap().code(), Some(4));
    }
}

#[test]
fn a_command_that_is_itself_a_rank_holds_nothing() {
    let mut command = launch(&["--stop", "exec"], &["true"]);
    let (code, message) = failed(command.env("PMIX_NAMESPACE", "x").env("PMIX_RANK", "0"));
    let want =
        "monitor: this command is itself a rank of a job: all that it starts would be held\n";
    assert_eq!((code, message.as_str()), (Some(2), want));
}
