//! Jobs that end: a rank that fails or is killed, a launcher that is killed, an end meanwhile.

use super::{HYDRA, Launcher, OPEN_MPI, failed, kill, listed, ranks_of};
use crate::deadline;
use crate::root::workload::Guarded;
use crate::served::monitor;
use std::process::{Command, Stdio};

/// When one rank is killed, the launcher ends the others, and the job is no longer listed.
#[track_caller]
fn check_killed_rank(test: &str, launcher: &Launcher) {
    let Some(mut job) = launcher.start(test, 3, "exec sleep 1000") else { return };
    let id = job.listed().unwrap()["id"].as_str().unwrap().to_owned();
    kill(job.ranks()[1]);
    deadline::until(|| listed(|it| it["id"] == *id).is_none().then_some(()));
    assert!(!job.launcher.0.wait().unwrap().success());
    let (code, message) = failed(monitor().args(["job", "show", &id]));
    assert_eq!(code, Some(6), "{message}");
}

#[test]
fn a_job_whose_rank_is_killed_is_no_longer_listed() {
    const TEST: &str = "a_job_whose_rank_is_killed_is_no_longer_listed";
    check_killed_rank(TEST, &OPEN_MPI);
    check_killed_rank(TEST, &HYDRA);
}

/// Rank 0, which has the standard input, fails at a line of it.
const FIRST_FAILS: &str = "if [ $RANK = 0 ]; then read line; exit 3; fi; exec sleep 1000";

#[test]
fn a_rank_that_fails_ends_a_job_of_open_mpi_with_its_status() {
    const TEST: &str = "a_rank_that_fails_ends_a_job_of_open_mpi_with_its_status";
    let Some(mut job) = OPEN_MPI.start(TEST, 3, FIRST_FAILS) else { return };
    job.launcher.send_line("fail");
    deadline::until(|| job.listed().is_none().then_some(()));
    assert_eq!(job.launcher.0.wait().unwrap().code(), Some(3));
}

#[test]
fn a_job_of_hydra_is_incomplete_after_a_rank_that_is_no_mpi_program_fails() {
    const TEST: &str = "a_job_of_hydra_is_incomplete_after_a_rank_that_is_no_mpi_program_fails";
    // Hydra ends the others only if the rank has called PMI_Init.
    let Some(mut job) = HYDRA.start(TEST, 3, FIRST_FAILS) else { return };
    job.launcher.send_line("fail");
    deadline::until(|| {
        let job = job.listed()?;
        let numbers = (&job["local_ranks"], &job["local_size"]);
        (job["state"] == "incomplete" && numbers == (&2.into(), &3.into())).then_some(())
    });
}

#[test]
fn a_job_whose_launcher_is_killed_is_orphaned_until_its_ranks_end() {
    const TEST: &str = "a_job_whose_launcher_is_killed_is_orphaned_until_its_ranks_end";
    // Ranks that are no MPI programs do not notice. Hydra's proxy does, and ends them.
    let Some(mut job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    let id = job.listed().unwrap()["id"].as_str().unwrap().to_owned();
    let ranks = job.ranks();
    job.launcher.0.kill().unwrap();
    let _status = job.launcher.0.wait().unwrap();
    let orphaned = deadline::until(|| {
        let job = listed(|it| it["id"] == *id)?;
        (job["state"] == "orphaned").then_some(job)
    });
    assert!(orphaned["launcher_pid"].is_null() && orphaned["runtime"] == "openmpi4");
    assert_eq!(ranks_of(&id), ranks);
    ranks.into_iter().for_each(kill);
    deadline::until(|| {
        let job = listed(|it| it["id"] == *id);
        job.is_none_or(|it| it["state"] == "ended").then_some(())
    });
}

#[test]
fn a_job_of_hydra_ends_with_its_launcher() {
    const TEST: &str = "a_job_of_hydra_ends_with_its_launcher";
    let Some(mut job) = HYDRA.start(TEST, 2, "exec sleep 1000") else { return };
    let id = job.listed().unwrap()["id"].as_str().unwrap().to_owned();
    job.launcher.0.kill().unwrap();
    let _status = job.launcher.0.wait().unwrap();
    deadline::until(|| {
        let job = listed(|it| it["id"] == *id);
        job.is_none_or(|it| it["state"] == "ended").then_some(())
    });
}

/// A rank without a launcher.
fn rank(namespace: &str, rank: u32) -> Guarded {
    let mut command = Command::new("cat");
    command.env("PMIX_NAMESPACE", namespace).env("PMIX_RANK", rank.to_string());
    Guarded::run(&mut command)
}

/// The number of clock_nanosleep(2), as `/proc/<pid>/syscall` begins.
const CLOCK_NANOSLEEP: &str = if cfg!(target_arch = "x86_64") { "230 " } else { "115 " };

/// The output of `job show`, after the ranks to be ended were killed between its two readings.
fn shown_while(namespace: &str, ended: Vec<Guarded>) -> std::process::Output {
    // The interval is as long as the ends may take.
    let words = ["job", "show", namespace, "--for", "5s", "--backend", "procfs"];
    let mut command = monitor();
    command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = child.id();
    // It waits once it has read.
    let call = format!("/proc/{pid}/syscall");
    deadline::until(|| {
        std::fs::read_to_string(&call).ok()?.starts_with(CLOCK_NANOSLEEP).then_some(())
    });
    drop(ended);
    child.wait_with_output().unwrap()
}

#[test]
fn a_job_that_ends_while_it_is_measured_is_named() {
    let namespace = format!("ends-{}", std::process::id());
    let ranks = vec![rank(&namespace, 0), rank(&namespace, 1)];
    deadline::until(|| listed(|it| it["id"] == *namespace && it["local_ranks"] == 2));
    let got = shown_while(&namespace, ranks);
    let want = format!("monitor: job {namespace} ended while it was measured\n");
    assert_eq!((got.status.code(), String::from_utf8(got.stderr).unwrap()), (Some(6), want));
}

#[test]
fn a_rank_that_ends_while_the_job_is_measured_is_noted() {
    let namespace = format!("loses-{}", std::process::id());
    let _stays = rank(&namespace, 0);
    let ends = vec![rank(&namespace, 1)];
    deadline::until(|| listed(|it| it["id"] == *namespace && it["local_ranks"] == 2));
    let got = shown_while(&namespace, ends);
    let text = String::from_utf8(got.stdout).unwrap();
    assert!(got.status.success() && text.contains("note: rank 1 ended while the job"), "{text}");
}
