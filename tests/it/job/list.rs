//! `job list`: jobs of both launchers, with what the launchers themselves know.

use super::{HYDRA, Launcher, OPEN_MPI, kill, printed};
use crate::deadline;
use crate::golden::as_other_user;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::Folder;
use std::process::Command;

#[track_caller]
fn check_listed(test: &str, launcher: &Launcher) {
    // Ranks of any program are ranks.
    let Some(job) = launcher.start(test, 3, "exec sleep 1000") else { return };
    let listed = job.listed().unwrap();
    assert_eq!(listed["runtime"], launcher.runtime);
    assert_eq!(listed["state"], "running");
    assert_eq!((&listed["size"], &listed["local_size"]), (&3.into(), &3.into()));
    assert_eq!(listed["uid"], rustix::process::getuid().as_raw());
    assert!(listed["since_unix_ns"].as_u64() > Some(0));
    // Stopped ranks are a stopped job.
    let ranks = job.ranks();
    for pid in &ranks {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid.0).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }
    deadline::until(|| (job.listed()?["state"] == "stopped").then_some(()));
    ranks.into_iter().for_each(kill);
    deadline::until(|| job.listed().is_none().then_some(()));
}

#[test]
fn a_job_of_open_mpi_is_listed_with_its_launcher() {
    check_listed("a_job_of_open_mpi_is_listed_with_its_launcher", &OPEN_MPI);
}

#[test]
fn a_job_of_hydra_is_listed_with_its_launcher() {
    check_listed("a_job_of_hydra_is_listed_with_its_launcher", &HYDRA);
}

#[test]
fn a_child_of_a_rank_is_no_second_rank() {
    const TEST: &str = "a_child_of_a_rank_is_no_second_rank";
    for launcher in [OPEN_MPI, HYDRA] {
        let Some(job) = launcher.start(TEST, 2, "sleep 1000 & sleep 1000; wait") else { return };
        deadline::until(|| {
            let shown = super::shown(&job.pid(), "1ms");
            let ranks = shown["job"]["ranks"].as_array().unwrap();
            assert_eq!(ranks.len(), 2);
            ranks.iter().all(|it| it["processes"] == 3).then_some(())
        });
    }
}

#[test]
fn csv_has_a_header_and_a_line_for_each_job() {
    let mut command = Command::new("cat");
    let namespace = format!("list,\"{}", std::process::id());
    command.env("PMIX_NAMESPACE", &namespace).env("PMIX_RANK", "0");
    let rank = Guarded::run(&mut command);
    let start = format!("\"{}\",unknown,,", namespace.replace('"', "\"\""));
    let text = deadline::until(|| {
        let text = printed(&["job", "list", "--format", "csv"]);
        text.contains(&start).then_some(text)
    });
    let header = "id,runtime,launcher_pid,uid,user,local_ranks,local_size,size,state,since_unix_ns";
    assert_eq!(text.lines().next(), Some(header));
    assert!(super::ranks_of(&namespace).contains(&rank.pid()));
}

#[test]
fn root_ranks_of_another_user_are_not_listed_and_the_launcher_is_named() {
    const TEST: &str = "root_ranks_of_another_user_are_not_listed_and_the_launcher_is_named";
    if !granted(TEST) {
        return;
    }
    let Some(job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    let folder = Folder::new();
    let got = as_other_user(&folder, &["job", "list"]).output().unwrap();
    let stderr = String::from_utf8(got.stderr).unwrap();
    let pid = job.pid();
    let note = format!(
        "monitor: mpirun.openmpi (process {pid}) belongs to user root: its ranks are visible to \
         that user and to root only\n"
    );
    assert!(got.status.success() && stderr.contains(&note), "{stderr}");
    let (code, message) = super::failed(&mut as_other_user(&folder, &["job", "show", &pid]));
    let want = format!(
        "monitor: process {pid} belongs to user root: its environment, which names its job, is \
         readable by that user and by root only; run it as root\n"
    );
    assert_eq!((code, message), (Some(5), want));
}
