//! `job launch -n`: ranks under our own PMIx host. Their job ends as under a launcher, whichever
//! way a rank ends, and nothing is left when the command or the host is killed.

use super::launch::launch;
use super::{Noticed, has_ended, kill, listed, printed, ranks_of, state};
use crate::control::target::signal;
use crate::deadline;
use crate::probe::mpi::{OPEN_MPI, compile};
use crate::root::privilege::skip;
use crate::root::workload::Guarded;
use crate::served::Folder;
use monitor_model::id::Pid;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The headers of the library, as Debian has them.
const PMIX: &str = "/usr/lib/x86_64-linux-gnu/pmix2";

/// A command that starts ranks, with a folder of its own for temporary files.
pub fn native(options: &[&str], program: &[&str]) -> (Command, Folder) {
    let mut command = launch(options, program);
    let folder = Folder::new();
    // A daemon of Slurm may run beside this test.
    command.env("TMPDIR", folder.join("")).env("SLURM_JOB_ID", "7");
    (command, folder)
}

fn entries(folder: &Folder) -> usize {
    std::fs::read_dir(folder.join("")).unwrap().count()
}

/// What a job prints, in order, and says; its exit code. Nothing is left in its folder.
#[track_caller]
fn ran(options: &[&str], program: &[&str]) -> (Vec<String>, String, Option<i32>) {
    let (mut command, folder) = native(options, program);
    let got = command.output().unwrap();
    assert_eq!(entries(&folder), 0);
    let mut lines: Vec<String> =
        String::from_utf8(got.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    (lines, String::from_utf8(got.stderr).unwrap(), got.status.code())
}

/// Whether PMIx is here; if not, the test is skipped, or fails if skips are not allowed.
pub fn able(test: &str) -> bool {
    let is_there = Path::new(PMIX).exists();
    if !is_there {
        skip(test, "needs PMIx (apt install libpmix-dev)");
    }
    is_there
}

/// Compiles a client of the library without MPI.
pub fn client(test: &str, source: &str) -> Option<PathBuf> {
    if !able(test) {
        return None;
    }
    let options =
        [format!("-I{PMIX}/include"), format!("-L{PMIX}/lib"), "-Wl,--no-as-needed".to_owned()];
    let options: Vec<&str> = options.iter().map(String::as_str).chain(["-lpmix"]).collect();
    Some(compile("cc", test, source, &options))
}

fn built(test: &str) -> Option<PathBuf> {
    able(test).then(|| OPEN_MPI.build(test, "hosted.c"))?
}

#[test]
fn ranks_of_open_mpi_are_one_job() {
    let Some(program) = built("ranks_of_open_mpi_are_one_job") else { return };
    let program = program.to_str().unwrap();
    let want = ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"];
    let sums: Vec<String> = want.iter().map(|it| format!("{it} has the sum 3")).collect();
    assert_eq!(ran(&["-n", "3"], &[program, "sum"]), (sums.clone(), String::new(), Some(0)));
    let tagged: Vec<String> = (0..).zip(&sums).map(|(rank, it)| format!("[{rank}] {it}")).collect();
    assert_eq!(ran(&["-n", "3", "--tag"], &[program]), (tagged, String::new(), Some(0)));
    let found: Vec<String> = want.iter().map(|it| format!("{it} found 77")).collect();
    assert_eq!(ran(&["-n", "3"], &[program, "publish"]), (found, String::new(), Some(0)));
}

#[test]
fn a_job_starts_another_one_and_exchanges_messages_with_it() {
    let test = "a_job_starts_another_one_and_exchanges_messages_with_it";
    let Some(program) = built(test) else { return };
    let (lines, stderr, code) = ran(&["-n", "2"], &[program.to_str().unwrap(), "spawn"]);
    let want = [
        "rank 0 of 2 got of the child 30",
        "rank 0 of 2 got of the parent 3",
        "rank 1 of 2 got of the child 30",
        "rank 1 of 2 got of the parent 3",
    ];
    assert_eq!((lines, stderr.as_str(), code), (want.map(str::to_owned).to_vec(), "", Some(0)));
}

#[test]
fn a_job_runs_on_when_another_one_cannot_be_started() {
    let test = "a_job_runs_on_when_another_one_cannot_be_started";
    let Some(program) = built(test) else { return };
    let (lines, stderr, code) = ran(&["-n", "1"], &[program.to_str().unwrap(), "spawn-none"]);
    assert_eq!((lines, code), (vec!["rank 0 of 1 spawned 0".to_owned()], Some(0)), "{stderr}");
    let want = "monitor: a job of rank 0: cannot execute ./none: No such file or directory";
    assert!(stderr.contains(want), "{stderr}");
}

#[test]
fn ranks_that_ignore_the_first_signal_end_at_the_second() {
    if !able("ranks_that_ignore_the_first_signal_end_at_the_second") {
        return;
    }
    let script = "trap 'echo ignored' TERM; echo began; while :; do sleep 0.01; done";
    let (mut job, _folder, found, _ranks) = sleeping(&["sh", "-c", script]);
    let host = Pid(u32::try_from(found["launcher_pid"].as_u64().unwrap()).unwrap());
    assert_eq!([job.line(), job.line()], ["began"; 2]);
    signal(host.0, "TERM");
    assert_eq!([job.line(), job.line()], ["ignored"; 2]);
    signal(host.0, "TERM");
    assert_eq!(job.0.wait().unwrap().code(), Some(143));
}

#[test]
fn the_job_ends_when_one_rank_does_not_end_as_it_should() {
    let test = "the_job_ends_when_one_rank_does_not_end_as_it_should";
    let Some(program) = built(test) else { return };
    let program = program.to_str().unwrap();
    let (_, stderr, code) = ran(&["-n", "2"], &[program, "abort"]);
    assert!(stderr.contains("monitor: rank 1 ended the job with status 7"), "{stderr}");
    assert_eq!(code, Some(7));
    let (_, stderr, code) = ran(&["-n", "2"], &[program, "leave"]);
    assert!(stderr.contains("ended without MPI_Finalize; the job ends"), "{stderr}");
    assert_eq!(code, Some(1));
    let script = |text| ran(&["-n", "2"], &["sh", "-c", text]);
    let (_, stderr, code) = script("if [ $PMIX_RANK = 1 ]; then exit 3; fi; sleep 1000");
    assert!(stderr.starts_with("monitor: rank 1, process "), "{stderr}");
    assert!(stderr.ends_with(", ended with exit status: 3\n"), "{stderr}");
    assert_eq!(code, Some(3));
    let (_, stderr, code) = script("if [ $PMIX_RANK = 0 ]; then kill -9 $$; fi; sleep 1000");
    assert!(stderr.contains("monitor: rank 0, process "), "{stderr}");
    assert_eq!(code, Some(137));
}

#[test]
fn what_cannot_be_started_is_refused() {
    let test = "what_cannot_be_started_is_refused";
    if !able(test) {
        return;
    }
    let (_, stderr, code) = ran(&["-n", "2"], &["./none"]);
    let want = "monitor: cannot run ./none: No such file or directory (os error 2)\n";
    assert_eq!((stderr.as_str(), code), (want, Some(127)));
    let (_, stderr, code) = ran(&["-n", "2"], &["mpirun", "./program"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("mpirun is a launcher: leave out -n"), "{stderr}");
}

#[test]
fn the_first_rank_has_the_standard_input_and_the_others_have_none() {
    if !able("the_first_rank_has_the_standard_input_and_the_others_have_none") {
        return;
    }
    let script = "read line; echo $PMIX_RANK of $MONITOR_JOB_SIZE: $line";
    let (mut command, _folder) = native(&["-n", "2"], &["sh", "-c", script]);
    let mut job = Guarded::run(&mut command);
    assert_eq!(job.line(), "1 of 2:");
    job.send_line("text");
    assert_eq!(job.line(), "0 of 2: text");
    assert_eq!(job.0.wait().unwrap().code(), Some(0));
}

/// Two ranks that sleep, with the ranks' processes and the host.
fn sleeping(program: &[&str]) -> (Guarded, Folder, Value, Vec<Pid>) {
    let (mut command, folder) = native(&["-n", "2"], program);
    let job = Guarded::run(&mut command);
    let id = format!("monitor-{}", job.pid().0);
    let found = deadline::until(|| listed(|it| it["id"] == *id && it["local_ranks"] == 2));
    let ranks = ranks_of(&id);
    (job, folder, found, ranks)
}

#[test]
fn a_job_is_listed_held_and_released_as_any_other() {
    if !able("a_job_is_listed_held_and_released_as_any_other") {
        return;
    }
    let (mut job, _folder, found, ranks) = sleeping(&["sleep", "1000"]);
    let id = found["id"].as_str().unwrap();
    assert_eq!([&found["runtime"], &found["state"]], ["native", "running"]);
    assert_eq!(found["size"], 2);
    assert!(printed(&["job", "hold", id]).contains("held ranks 0-1"));
    assert!(ranks.iter().all(|pid| state(*pid) == 'T'));
    assert!(printed(&["job", "release", id]).contains("released ranks 0-1"));
    assert!(printed(&["job", "end", id]).contains("has ended"));
    assert_eq!(job.0.wait().unwrap().code(), Some(143));
}

#[test]
fn ranks_end_with_their_host_and_the_command_says_so() {
    if !able("ranks_end_with_their_host_and_the_command_says_so") {
        return;
    }
    let (mut command, folder) = native(&["-n", "2"], &["sh", "-c", "sleep 1000; true"]);
    let mut job = Noticed::run(&mut command);
    let id = format!("monitor-{}", job.command.pid().0);
    let found = deadline::until(|| listed(|it| it["id"] == *id && it["local_ranks"] == 2));
    let ranks = ranks_of(&id);
    kill(Pid(u32::try_from(found["launcher_pid"].as_u64().unwrap()).unwrap()));
    let notice = job.notice();
    assert_eq!(notice, "monitor: host lost: the host of the job ended by signal 9\n");
    assert_eq!(job.end(), (String::new(), Some(137)));
    deadline::until(|| (ranks.iter().all(|it| has_ended(*it))).then_some(()));
    // Not even the children of their shells.
    assert!(listed(|it| it["id"] == *id).is_none());
    assert_eq!(entries(&folder), 0);
}

#[test]
fn ranks_run_on_when_the_command_is_killed() {
    if !able("ranks_run_on_when_the_command_is_killed") {
        return;
    }
    let (mut job, folder, found, ranks) =
        sleeping(&["sh", "-c", "until [ -e $TMPDIR/gate ]; do sleep 0.01; done"]);
    let host = Pid(u32::try_from(found["launcher_pid"].as_u64().unwrap()).unwrap());
    job.0.kill().unwrap();
    assert_eq!(job.0.wait().unwrap().signal(), Some(9));
    assert!(!has_ended(host) && !has_ended(ranks[0]));
    std::fs::write(folder.join("gate"), "").unwrap();
    deadline::until(|| (has_ended(ranks[0]) && has_ended(host)).then_some(()));
    std::fs::remove_file(folder.join("gate")).unwrap();
    assert_eq!(entries(&folder), 0);
}

#[test]
fn ranks_are_held_at_launch() {
    let Some(program) = built("ranks_are_held_at_launch") else { return };
    let program = program.to_str().unwrap();
    for place in ["exec", "init"] {
        let (mut command, _folder) = native(&["-n", "2", "--stop", place], &[program, "sum"]);
        let mut job = Noticed::run(&mut command);
        let notice = job.notice();
        assert!(notice.contains(": held ranks 0-1 on "), "{notice}");
        let id = notice["monitor: job ".len()..].split(':').next().unwrap();
        assert!(ranks_of(id).iter().all(|it| state(*it) == 'T'));
        assert!(printed(&["job", "release", id]).contains("released ranks 0-1"));
        let mut lines = [job.command.line(), job.command.line()];
        lines.sort();
        assert_eq!(lines, ["rank 0 of 2 has the sum 1", "rank 1 of 2 has the sum 1"]);
        assert_eq!(job.end(), (String::new(), Some(0)));
    }
}

#[test]
fn a_client_gets_the_usage_of_its_job_first_as_reply_then_as_events() {
    let test = "a_client_gets_the_usage_of_its_job_first_as_reply_then_as_events";
    let Some(program) = client(test, "pmix_usage.c") else { return };
    let (mut command, _folder) = native(&["-n", "2"], &[program.to_str().unwrap()]);
    command.env("MONITOR_BACKEND", "procfs");
    let got = command.output().unwrap();
    let text = String::from_utf8(got.stdout).unwrap();
    assert_eq!((got.status.code(), String::from_utf8_lossy(&got.stderr)), (Some(0), "".into()));
    let values = |key: &str| -> Vec<f64> {
        let lines = text.lines().filter_map(|it| it.strip_prefix(key)?.strip_prefix(' '));
        lines.map(|it| it.parse().unwrap()).collect()
    };
    assert_eq!(values("pmix.procid"), [0.0, 1.0], "{text}");
    assert_eq!(values("pmix.ppid").len(), 2);
    for key in ["pmix.proc.rss", "pmix.proc.vsize", "pmix.proc.pss"] {
        assert!(values(key).len() == 2 && values(key).iter().all(|it| *it > 0.0), "{key} {text}");
    }
    assert_eq!(values("pmix.proc.time").len(), 2);
    // PMIX_ERR_EXISTS, PMIX_ERR_NOT_FOUND, PMIX_ERR_BAD_PARAM.
    for line in ["monitor 0", "second of this id -11", "two events", "cancel 0", "cancel again -46"]
    {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    assert!(text.lines().any(|it| it == "heartbeat -27"), "{text}");
}
