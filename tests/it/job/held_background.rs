//! `job launch -n --background --stop`: ranks that are held when the command returns, and that are
//! not when one of its processes is killed before.

use super::gate::own_children;
use super::launch_native::{able, native};
use super::{has_ended, kill, listed, printed, ranks_of, state};
use crate::control::target::signal;
use crate::deadline;
use crate::probe::mpi::OPEN_MPI;
use crate::served::{Folder, monitor};
use monitor_model::id::Pid;
use procfs::process::Process;
use serde_json::Value;
use std::process::Stdio;

/// A launch whose ranks are held; the id of its job, its host, and its folder.
#[track_caller]
fn held(place: &str, program: &[&str]) -> (String, Pid, Folder) {
    let options = ["-n", "2", "--background", "--format", "json", "--stop", place];
    let (mut command, folder) = native(&options, program);
    let got = command.output().unwrap();
    let errors = String::from_utf8_lossy(&got.stderr).into_owned();
    let answer: Value = serde_json::from_slice(&got.stdout).unwrap_or_else(|_| panic!("{errors}"));
    let id = answer["job"].as_str().unwrap().to_owned();
    assert!(errors.contains(&format!("job {id}: held ranks 0-1 on ")), "{errors}");
    (id, Pid(u32::try_from(answer["host_pid"].as_u64().unwrap()).unwrap()), folder)
}

fn entries(folder: &Folder) -> usize {
    std::fs::read_dir(folder.join("")).unwrap().count()
}

/// What a command prints on the output of a job.
fn output(folder: &Folder, words: &[&str]) -> String {
    let mut command = monitor();
    let got = command.env("TMPDIR", folder.join("")).args(["job", "output"]).args(words).output();
    String::from_utf8(got.unwrap().stdout).unwrap()
}

/// The ranks are stopped and not traced, have written nothing, and run when they are released.
#[track_caller]
fn check(place: &str, program: &[&str], want: &str) {
    let (id, host, folder) = held(place, program);
    let ranks = ranks_of(&id);
    assert_eq!(ranks.iter().map(|pid| state(*pid)).collect::<Vec<_>>(), ['T'; 2]);
    assert_eq!(output(&folder, &[&id, "--no-follow"]), "");
    let text = printed(&["job", "release", &id]);
    assert!(text.contains(": released ranks 0-1 on "), "{text}");
    let got = output(&folder, &[&id]);
    let mut lines: Vec<&str> = got.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.join("\n"), want);
    signal(host.0, "TERM");
    deadline::until(|| (has_ended(host) && entries(&folder) == 0).then_some(()));
}

#[test]
fn ranks_in_the_background_are_held_at_exec_until_they_are_released() {
    if !able("ranks_in_the_background_are_held_at_exec_until_they_are_released") {
        return;
    }
    // Its input is empty.
    check("exec", &["sh", "-c", "cat; echo rank $PMIX_RANK"], "rank 0\nrank 1");
}

#[test]
fn ranks_in_the_background_are_held_in_mpi_init_until_they_are_released() {
    let test = "ranks_in_the_background_are_held_in_mpi_init_until_they_are_released";
    let built = able(test).then(|| OPEN_MPI.build(test, "hosted.c"));
    let Some(program) = built.flatten() else { return };
    let want = "rank 0 of 2 has the sum 1\nrank 1 of 2 has the sum 1";
    check("init", &[program.to_str().unwrap(), "sum"], want);
}

/// Which process of a launch is killed, from the command on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Killed {
    Command,
    Tracer,
    Guard,
    Host,
}

/// A launch that waits for its ranks is killed: they end, and nothing is left.
#[track_caller]
fn check_killed(which: Killed) {
    let options = ["-n", "2", "--background", "--stop", "init"];
    // The first one is stopped, and would stay so.
    let script = "if [ $PMIX_RANK = 0 ]; then kill -STOP $$; fi; sleep 1000";
    let (mut command, folder) = native(&options, &["sh", "-c", script]);
    let mut job = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let child = |pid: i32| deadline::until(|| own_children(pid).first().copied());
    let command = job.id().cast_signed();
    let tracer = child(command);
    let guard = child(tracer);
    let host = child(guard);
    let is_it = |it: &Value| it["launcher_pid"] == host && it["local_ranks"] == 2;
    let found = deadline::until(|| listed(is_it));
    let ranks = ranks_of(found["id"].as_str().unwrap());
    let pid = match which {
        Killed::Command => command,
        Killed::Tracer => tracer,
        Killed::Guard => guard,
        Killed::Host => host,
    };
    kill(Pid(pid.cast_unsigned()));
    let code = job.wait().unwrap().code();
    assert_eq!(code.is_none(), which == Killed::Command, "{code:?}");
    for left in ranks.iter().copied().chain([tracer, guard, host].map(|it| Pid(it.cast_unsigned())))
    {
        deadline::until(|| has_ended(left).then_some(()));
    }
    deadline::until(|| (entries(&folder) == 0).then_some(()));
}

#[test]
fn no_rank_stays_stopped_when_a_process_of_the_launch_is_killed() {
    if !able("no_rank_stays_stopped_when_a_process_of_the_launch_is_killed") {
        return;
    }
    for which in [Killed::Command, Killed::Tracer, Killed::Guard, Killed::Host] {
        check_killed(which);
    }
}

#[test]
fn a_launch_that_does_not_wait_ends_its_job_with_the_process_that_holds_the_ranks() {
    if !able("a_launch_that_does_not_wait_ends_its_job_with_the_process_that_holds_the_ranks") {
        return;
    }
    let options = ["-n", "2", "--background", "--format", "json", "--stop", "init", "--no-wait"];
    let (mut command, folder) = native(&options, &["sleep", "1000"]);
    // It returns, though these ranks are never held.
    let got = command.output().unwrap();
    let answer: Value = serde_json::from_slice(&got.stdout).unwrap();
    let parent = |pid: i32| Process::new(pid).and_then(|it| it.stat()).unwrap().ppid;
    let host = i32::try_from(answer["host_pid"].as_i64().unwrap()).unwrap();
    let guard = parent(host);
    let tracer = parent(guard);
    let ranks = ranks_of(answer["job"].as_str().unwrap());
    assert_eq!(ranks.len(), 2);
    kill(Pid(tracer.cast_unsigned()));
    let left = [tracer, guard, host].map(|it| Pid(it.cast_unsigned()));
    for left in ranks.into_iter().chain(left) {
        deadline::until(|| has_ended(left).then_some(()));
    }
    deadline::until(|| (entries(&folder) == 0).then_some(()));
}
