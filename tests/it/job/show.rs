//! `job show`: the process table, its form for MPIR, stragglers, and what is no job.

use super::{HYDRA, Launcher, OPEN_MPI, failed, mpir, shown};
use crate::deadline;
use crate::probe::mpi::{self, Library, Ranks};
use crate::root::privilege::granted;
use crate::served::monitor;
use serde_json::Value;

/// The table has the processes that the ranks themselves print.
#[track_caller]
fn check_table(test: &str, library: &Library) {
    let Some(mut ranks) = Ranks::start_many(test, library, 4) else { return };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let file = std::fs::read_link(format!("/proc/{}/exe", ranks.pids[0].0)).unwrap();
    let row = |pid: &monitor_model::id::Pid| {
        [host.trim().to_owned(), file.display().to_string(), pid.0.to_string()]
    };
    let want: Vec<_> = ranks.pids.iter().map(row).collect();
    let launcher = ranks.starter_pid().0.to_string();
    assert_eq!(mpir(&launcher), want);
    // A rank names its job too, and so does the id.
    assert_eq!(mpir(&ranks.pids[2].0.to_string()), want);
    let table = shown(&launcher, "1ms");
    let id = table["job"]["id"].as_str().unwrap();
    assert_eq!(mpir(id), want);
    assert_eq!(column(&table, "rank"), [0, 1, 2, 3].map(Value::from));
    let pids: Vec<Value> = ranks.pids.iter().map(|it| it.0.into()).collect();
    assert_eq!(column(&table, "pid"), pids);
    ranks.end();
    let (code, message) = failed(monitor().args(["job", "show", id]));
    assert_eq!(code, Some(6));
    assert!(message.starts_with(&format!("monitor: no job {id:?}")), "{message}");
}

fn column(table: &Value, name: &str) -> Vec<Value> {
    table["job"]["ranks"].as_array().unwrap().iter().map(|it| it[name].clone()).collect()
}

#[test]
fn the_table_of_open_mpi_has_the_processes_that_its_ranks_print() {
    check_table("the_table_of_open_mpi_has_the_processes_that_its_ranks_print", &mpi::OPEN_MPI);
}

#[test]
fn the_table_of_mpich_has_the_processes_that_its_ranks_print() {
    check_table("the_table_of_mpich_has_the_processes_that_its_ranks_print", &mpi::MPICH);
}

/// One rank computes, the others wait.
const ONE_COMPUTES: &str = "if [ $RANK = 2 ]; then while :; do :; done; else exec sleep 1000; fi";

#[track_caller]
fn check_straggler(test: &str, launcher: &Launcher) {
    let Some(job) = launcher.start(test, 4, ONE_COMPUTES) else { return };
    deadline::until(|| {
        let stragglers = column(&shown(&job.pid(), "300ms"), "straggler");
        let want = [Value::Null, Value::Null, "cpu_percent".into(), Value::Null];
        (stragglers == want).then_some(())
    });
    deadline::until(|| {
        let words = ["job", "show", &job.pid(), "--for", "300ms", "--backend", "procfs"];
        let text = super::printed(&words);
        let is_marked = text.contains("! cpu +") && text.contains("\nstraggler: rank 2, process ");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        is_marked.then_some(())
    });
}

#[test]
fn a_rank_that_computes_while_others_wait_is_a_straggler() {
    const TEST: &str = "a_rank_that_computes_while_others_wait_is_a_straggler";
    check_straggler(TEST, &OPEN_MPI);
    check_straggler(TEST, &HYDRA);
}

#[test]
fn root_ebpf_shows_the_same_ranks_as_proc() {
    const TEST: &str = "root_ebpf_shows_the_same_ranks_as_proc";
    if !granted(TEST) {
        return;
    }
    let Some(job) = OPEN_MPI.start(TEST, 3, "exec sleep 1000") else { return };
    let pid = job.pid();
    let words = ["job", "show", &pid, "--for", "1ms", "--format", "json", "--backend", "ebpf"];
    let by_ebpf: Value = serde_json::from_str(&super::printed(&words)).unwrap();
    let by_proc = shown(&pid, "1ms");
    for name in ["rank", "host", "pid", "executable", "processes"] {
        assert_eq!(column(&by_ebpf, name), column(&by_proc, name), "{name}");
    }
    let facts = ["id", "runtime", "launcher_pid", "size", "local_size", "uid", "state"];
    for name in facts {
        assert_eq!(by_ebpf["job"][name], by_proc["job"][name], "{name}");
    }
}

#[test]
fn a_process_without_a_job_is_named() {
    let own = std::process::id().to_string();
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    let (code, message) = failed(monitor().args(["job", "show", &own, "--mpir"]));
    let want = format!(
        "monitor: process {own} ({}) is neither a launcher nor a rank of a parallel job; monitor \
         job list lists them\n",
        comm.trim()
    );
    assert_eq!((code, message), (Some(6), want));
}
