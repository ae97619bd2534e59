//! `job_list` and `job_info` through the socket of a service.

use super::{HYDRA, Launcher, OPEN_MPI, state};
use crate::deadline;
use crate::root::privilege::{able, as_user};
use crate::served::Served;
use monitor_model::id::Pid;

#[track_caller]
fn check(test: &str, launcher: &Launcher) {
    let Some(job) = launcher.start(test, 3, "exec sleep 1000") else { return };
    let listed = job.listed().unwrap();
    let id = listed["id"].as_str().unwrap();
    let ranks = job.ranks();
    let served = Served::start("procfs");
    let mut session = served.connect();
    let reply = session.request("1 [0] job_list()");
    let (runtime, pid) = (launcher.runtime, job.pid());
    let uid = rustix::process::getuid().as_raw();
    let want = format!("\"{id}\",\"{runtime}\",{pid},{uid},3,3,\"running\",");
    assert!(reply.starts_with("1 [0] job_list(0,[") && reply.contains(&want), "{reply}");
    let reply = session.request(&format!("2 [0] job_info(\"{pid}\")"));
    let head = format!("2 [0] job_info(0,\"{id}\",\"{runtime}\",\"running\",{pid},[0,");
    assert!(reply.starts_with(&head), "{reply}");
    let is_there = |pid: &Pid| reply.contains(&format!(",{},\"", pid.0));
    assert!(ranks.iter().all(is_there) && reply.matches("sleep\",\"S\",").count() == 3, "{reply}");
    let reply = session.request("3 [0] job_info(\"nosuch\")");
    assert!(reply.starts_with("3 [0] job_info(300"), "{reply}");
}

#[test]
fn the_services_return_the_jobs_of_both_launchers() {
    const TEST: &str = "the_services_return_the_jobs_of_both_launchers";
    check(TEST, &OPEN_MPI);
    check(TEST, &HYDRA);
}

/// Two tools hold a job: it runs when both have released it, or are gone.
#[track_caller]
fn check_hold(test: &str, launcher: &Launcher) {
    let Some(job) = launcher.start(test, 3, "exec sleep 1000") else { return };
    let ranks = job.ranks();
    let states = || ranks.iter().map(|pid| state(*pid)).collect::<String>();
    let served = Served::start("procfs");
    let (mut one, mut other) = (served.connect(), served.connect());
    let pid = job.pid();
    let all = format!("job_hold(\"{pid}\")");
    assert_eq!(one.request(&format!("1 [0] {all}")), "1 [0] job_hold(0)");
    assert_eq!(states(), "TTT");
    assert_eq!(other.request(&format!("1 [0] job_hold(\"{pid}:0,1\")")), "1 [0] job_hold(0)");
    let release = format!("2 [0] job_release(\"{pid}\")");
    assert_eq!(one.request(&release), "2 [0] job_release(0)");
    deadline::until(|| (states() == "TTS").then_some(()));
    assert!(one.request(&release).starts_with("2 [0] job_release(303"));
    drop(other);
    deadline::until(|| (states() == "SSS").then_some(()));
    assert_eq!(one.request(&format!("3 [0] job_signal(\"{pid}:2\",19)")), "3 [0] job_signal(0)");
    deadline::until(|| (states() == "SST").then_some(()));
    assert_eq!(one.request(&format!("4 [0] job_signal(\"{pid}:2\",18)")), "4 [0] job_signal(0)");
    assert_eq!(one.request(&format!("5 [0] job_end(\"{pid}\")")), "5 [0] job_end(0)");
    deadline::until(|| job.listed().is_none().then_some(()));
}

#[test]
fn a_job_runs_when_no_tool_holds_it() {
    const TEST: &str = "a_job_runs_when_no_tool_holds_it";
    check_hold(TEST, &OPEN_MPI);
    check_hold(TEST, &HYDRA);
}

#[test]
fn root_jobs_of_another_user_are_not_returned() {
    const TEST: &str = "root_jobs_of_another_user_are_not_returned";
    if !able(TEST) {
        return;
    }
    let Some(job) = OPEN_MPI.start(TEST, 2, "exec sleep 1000") else { return };
    let served = Served::start("procfs");
    let mut session = as_user(&[], || served.connect());
    assert_eq!(session.request("1 [0] job_list()"), "1 [0] job_list(0,[])");
    for named in [job.pid(), job.listed().unwrap()["id"].as_str().unwrap().to_owned()] {
        let reply = session.request(&format!("2 [0] job_info(\"{named}\")"));
        assert!(reply.starts_with("2 [0] job_info(300"), "{reply}");
    }
}
