//! Steps of a real Slurm: found, acted on, attached to, and counted.

use super::slurm_node::SlurmNode;
use super::{Noticed, listed, mpir, printed, shown, state};
use crate::deadline;
use crate::golden::as_other_user;
use crate::probe::mpi::{MPICH, OPEN_MPI};
use crate::root::privilege::skip;
use crate::root::workload::Guarded;
use crate::served::monitor;
use monitor_model::id::Pid;
use procfs::process::Process;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// Ranks that print their numbers and pids, and do nothing until they are ended.
const IDLE: &str = "echo $SLURM_PROCID $$; exec sleep 1000";

/// The same of two ranks of MPI.
const IDLE_MPI: &str = "mpi_idle.c";

/// The pids that `n` ranks print, by rank.
fn pids(step: &mut Guarded, n: usize) -> Vec<u32> {
    let mut all = BTreeMap::new();
    while all.len() < n {
        let line = step.line();
        let (rank, pid) = line.split_once(' ').unwrap();
        all.insert(rank.parse::<u32>().unwrap(), pid.parse::<u32>().unwrap());
    }
    all.into_values().collect()
}

/// The only job of Slurm that is listed, with this number of ranks.
fn job(n: usize) -> Value {
    deadline::until(|| listed(|it| it["runtime"] == "slurm" && it["local_ranks"] == n))
}

fn id(job: &Value) -> String {
    job["id"].as_str().unwrap().to_owned()
}

fn states(pids: &[u32]) -> String {
    pids.iter().map(|pid| state(Pid(*pid))).collect()
}

/// The cgroups of a process, a line for each.
fn cgroups(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()
}

#[test]
fn root_a_step_of_slurm_is_found_and_named() {
    const TEST: &str = "root_a_step_of_slurm_is_found_and_named";
    let Some(node) = SlurmNode::start(TEST) else { return };
    let mut step = node.step(4, &[], IDLE);
    let pids = pids(&mut step, 4);
    let job = job(4);
    assert_eq!(id(&job), node.printed("squeue", &["-s", "-h", "-o", "%i"]));
    assert_eq!((&job["size"], &job["local_size"]), (&4.into(), &4.into()));
    assert_eq!(job["state"], "running");
    let daemon = i32::try_from(job["daemon_pid"].as_i64().unwrap()).unwrap();
    let comm = Process::new(daemon).unwrap().stat().unwrap().comm;
    assert_eq!((comm.as_str(), &job["launcher_pid"]), ("slurmstepd", &Value::Null));
    let table = mpir(&id(&job));
    let of_table: Vec<u32> = table.iter().map(|[_, _, pid]| pid.parse().unwrap()).collect();
    assert_eq!(of_table, pids);
    // One rank ends, the others go on.
    super::kill(Pid(pids[2]));
    let state = || listed(|it| it["id"] == job["id"]).map(|it| it["state"].clone());
    deadline::until(|| (state()? == "incomplete").then_some(()));
}

#[test]
fn root_a_step_of_slurm_is_held_released_signalled_and_ended() {
    const TEST: &str = "root_a_step_of_slurm_is_held_released_signalled_and_ended";
    let Some(node) = SlurmNode::start(TEST) else { return };
    let script = "trap 'echo caught $SLURM_PROCID' USR1; echo $SLURM_PROCID $$; \
                  while :; do sleep 1000; done";
    let mut step = node.step(4, &[], script);
    let pids = pids(&mut step, 4);
    let id = id(&job(4));
    let _line = printed(&["job", "hold", &format!("{id}:1-2")]);
    assert_eq!(states(&pids[1..3]), "TT");
    let _line = printed(&["job", "hold", &id]);
    assert_eq!(states(&pids), "TTTT");
    let _line = printed(&["job", "release", &id]);
    deadline::until(|| (states(&pids) == "SSSS").then_some(()));
    let _line = printed(&["job", "signal", &format!("{id}:3"), "USR1"]);
    assert_eq!(step.line(), "caught 3");
    let _line = printed(&["job", "end", &id]);
    assert!(!step.0.wait().unwrap().success());
    assert!(listed(|it| it["id"] == *id).is_none());
}

#[test]
fn root_steps_of_one_allocation_and_of_an_array_are_jobs_of_their_own() {
    const TEST: &str = "root_steps_of_one_allocation_and_of_an_array_are_jobs_of_their_own";
    let Some(node) = SlurmNode::start(TEST) else { return };
    let script = "srun --overlap -n 2 sleep 1000 & srun --overlap -n 2 sleep 1000 & wait";
    let out = node.folder.join("out-%j").display().to_string();
    let submit = |words: &[&str]| {
        let words = [&["--parsable", "-o", &out, "-n", "2"], words].concat();
        node.printed("sbatch", &[&words[..], &["--wrap", script]].concat())
    };
    let batch = submit(&[]);
    let array = submit(&["--array=3-4"]);
    let mut want: Vec<String> = deadline::until(|| {
        let text = node.printed("squeue", &["-h", "-t", "R", "-o", "%A"]);
        let steps = text.lines().flat_map(|job| [format!("{job}.0"), format!("{job}.1")]);
        Some(steps.collect::<Vec<_>>()).filter(|it| it.len() == 6)
    });
    assert!(want.contains(&format!("{batch}.0")) && want.contains(&format!("{array}.1")));
    want.sort();
    deadline::until(|| {
        let all: Value =
            serde_json::from_str(&printed(&["job", "list", "--format", "json"])).unwrap();
        let jobs = all["jobs"].as_array().unwrap();
        let jobs = jobs.iter().filter(|it| it["runtime"] == "slurm" && it["local_ranks"] == 2);
        let mut ids: Vec<String> = jobs.map(id).collect();
        ids.sort();
        // The script of a batch step is no rank.
        (ids == want).then_some(())
    });
}

#[test]
fn root_a_step_with_a_namespace_of_its_mpi_is_named_as_slurm_names_it() {
    const TEST: &str = "root_a_step_with_a_namespace_of_its_mpi_is_named_as_slurm_names_it";
    let Some(node) = SlurmNode::start(TEST) else { return };
    let of_mpi = [(&MPICH, "--mpi=pmi2", ""), (&OPEN_MPI, "--mpi=pmix", "slurm.pmix.")];
    for (library, mpi, namespace) in of_mpi {
        let Some(program) = library.build(TEST, IDLE_MPI) else { return };
        let mut step = node.step(2, &[mpi], &format!("exec {}", program.display()));
        let pids = pids(&mut step, 2);
        let name = node.printed("squeue", &["-s", "-h", "-o", "%i"]);
        assert_eq!(id(&job(2)), format!("{namespace}{name}"));
        let table = mpir(&name);
        let of_table: Vec<u32> = table.iter().map(|[_, _, pid]| pid.parse().unwrap()).collect();
        assert_eq!(of_table, pids);
        let _line = printed(&["job", "end", &name]);
        let _status = step.0.wait().unwrap();
    }
}

#[test]
fn root_daemons_beside_a_step_are_in_its_cgroup_and_end_with_it() {
    const TEST: &str = "root_daemons_beside_a_step_are_in_its_cgroup_and_end_with_it";
    let Some(node) = SlurmNode::start(TEST) else { return };
    if !node.has_cgroups {
        return skip(TEST, "needs cgroups of version 1");
    }
    let mut step = node.step(4, &[], IDLE);
    let pids = pids(&mut step, 4);
    let id = id(&job(4));
    let daemon = "echo $MONITOR_JOB_RANK $$; exec sleep 1000";
    let mut command = monitor();
    command.args(["job", "attach", &id, "--per", "process", "--daemon", daemon]);
    let mut command = Noticed::run(&mut command);
    for _ in 0..4 {
        let line = command.command.line();
        let (rank, daemon) = line.split_once("] ").unwrap().1.split_once(' ').unwrap();
        let rank = pids[rank.parse::<usize>().unwrap()];
        assert_eq!(cgroups(daemon.parse().unwrap()), cgroups(rank));
    }
    // Slurm kills what is left in the cgroup of the step.
    let _line = printed(&["job", "end", &id]);
    let (notices, code) = command.end();
    assert_eq!(code, Some(137), "{notices}");
    assert!(notices.lines().all(|it| it.contains(" ended with signal: 9")), "{notices}");
    let _status = step.0.wait().unwrap();
}

#[test]
fn root_a_daemon_that_may_not_enter_the_cgroup_of_its_step_runs_outside_with_a_notice() {
    const TEST: &str =
        "root_a_daemon_that_may_not_enter_the_cgroup_of_its_step_runs_outside_with_a_notice";
    let Some(node) = SlurmNode::start(TEST) else { return };
    if !node.has_cgroups {
        return skip(TEST, "needs cgroups of version 1");
    }
    let mut command = as_other_user(&node.folder, &[]);
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", "srun", "sh", "-c", IDLE];
    let mut step = Guarded::run(node.command("setpriv").args(user));
    let pids = pids(&mut step, 1);
    let id = id(&job(1));
    command.args(["job", "attach", &id, "--daemon", "echo beside $MONITOR_JOB_PID"]);
    let got = command.output().unwrap();
    let [text, notice] = [got.stdout, got.stderr].map(|it| String::from_utf8(it).unwrap());
    assert_eq!((text, got.status.code()), (format!("[0] beside {}\n", pids[0]), Some(0)));
    let start = "monitor: the daemon beside rank 0 is not in the cgroup of the step, and does not \
                 end with it: /sys/fs/cgroup/";
    assert!(notice.starts_with(start), "{notice}");
    assert!(notice.ends_with("cgroup.procs cannot be written: Permission denied (os error 13)\n"));
}

#[test]
fn root_the_cpu_time_of_a_step_is_that_of_its_cgroup() {
    const TEST: &str = "root_the_cpu_time_of_a_step_is_that_of_its_cgroup";
    let Some(node) = SlurmNode::start(TEST) else { return };
    if !node.has_cgroups {
        return skip(TEST, "needs cgroups of version 1");
    }
    // The shell itself counts, and then waits.
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $SLURM_PROCID $$; \
                  exec sleep 1000";
    let mut step = node.step(4, &[], script);
    let pids = pids(&mut step, 4);
    let id = id(&job(4));
    deadline::until(|| (states(&pids) == "SSSS").then_some(()));
    let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
    let table = shown(&id, "1ms");
    let ranks = table["job"]["ranks"].as_array().unwrap();
    let mut sum = 0;
    for (rank, pid) in ranks.iter().zip(&pids) {
        let text = cgroups(*pid).unwrap();
        let path = text.lines().find_map(|it| it.split_once(":cpuacct:")).unwrap().1.to_owned();
        let usage = fs::read_to_string(format!("/sys/fs/cgroup/cpuacct{path}/cpuacct.usage"));
        let usage: u64 = usage.unwrap().trim().parse().unwrap();
        let shown = rank["cpu_ns"].as_u64().unwrap();
        assert!(shown > tick_ns && shown.abs_diff(usage) <= tick_ns, "{shown} {usage}");
        sum += shown;
    }
    assert_eq!(table["job"]["cpu_ns"], sum);
}
