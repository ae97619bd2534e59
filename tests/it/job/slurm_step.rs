//! Steps of Slurm on two nodes, with components of different sizes, and cgroups of version 2, which
//! Slurm needs a machine without those of version 1 for: here a step has one that the test makes.

use super::slurm_node::SlurmNode;
use super::{listed, mpir, printed, state};
use crate::deadline::until;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::monitor;
use monitor_model::id::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A rank that prints its number and pid, and does nothing until it is ended.
const IDLE: &str = "echo $SLURM_PROCID $$; exec sleep 1000";

/// The pids of three ranks, by rank.
fn pids(step: &mut Guarded) -> Vec<u32> {
    let mut lines = [step.line(), step.line(), step.line()];
    lines.sort();
    lines.iter().map(|line| line.split_once(' ').unwrap().1.parse().unwrap()).collect()
}

/// The ranks are one job, whichever component or node they are of.
#[track_caller]
fn check_three_ranks(node: &SlurmNode, words: &[&str]) {
    let mut step = Guarded::run(node.command("srun").args(words));
    let pids = pids(&mut step);
    let job = until(|| listed(|it| it["runtime"] == "slurm" && it["local_ranks"] == 3));
    let id = job["id"].as_str().unwrap();
    assert_eq!(job["size"], 3);
    let table = mpir(id);
    let of_table: Vec<u32> = table.iter().map(|[_, _, pid]| pid.parse().unwrap()).collect();
    assert_eq!(of_table, pids);
    let _line = printed(&["job", "hold", &format!("{id}:2")]);
    assert_eq!(state(Pid(pids[2])), 'T');
    let daemon = "echo $MONITOR_JOB_RANK $MONITOR_JOB_PID";
    let text = printed(&["job", "attach", &format!("{id}:1-2"), "--daemon", daemon]);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [format!("[1] 1 {}", pids[1]), format!("[2] 2 {}", pids[2])]);
    let _line = printed(&["job", "end", id]);
    assert!(!step.0.wait().unwrap().success());
}

#[test]
fn root_a_step_of_two_components_or_nodes_is_one_job() {
    const TEST: &str = "root_a_step_of_two_components_or_nodes_is_one_job";
    let Some(node) = SlurmNode::start_two(TEST) else { return };
    check_three_ranks(&node, &["-N", "2", "-n", "3", "sh", "-c", IDLE]);
    check_three_ranks(&node, &["-n1", "sh", "-c", IDLE, ":", "-n2", "sh", "-c", IDLE]);
}

/// A cgroup of version 2 as Slurm makes it for a task, removed with the value.
struct TaskCgroup(PathBuf);

impl TaskCgroup {
    /// `None` if no hierarchy of version 2 can be written here.
    fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mount = mounts.lines().map(words).find(|it| it[2] == "cgroup2")?;
        let scope = format!("test{}_slurmstepd.scope", std::process::id());
        let task = Path::new(&mount[1]).join(scope).join("job_77/step_0/user/task_0");
        fs::create_dir_all(&task).ok().map(|()| Self(task))
    }
}

impl Drop for TaskCgroup {
    fn drop(&mut self) {
        for folder in self.0.ancestors().take(5) {
            // It is busy until its processes have been waited for.
            until(|| fs::remove_dir(folder).is_ok().then_some(()));
        }
    }
}

#[test]
fn root_a_daemon_enters_the_cgroup_of_version_2_of_its_rank() {
    const TEST: &str = "root_a_daemon_enters_the_cgroup_of_version_2_of_its_rank";
    if !granted(TEST) {
        return;
    }
    let Some(cgroup) = TaskCgroup::make() else {
        println!("SKIP {TEST}: no hierarchy of cgroups of version 2 can be written here");
        return;
    };
    let mut command = Command::new("sleep");
    command.arg("1000").env_clear();
    for (name, value) in [("JOB_ID", "77"), ("STEP_ID", "0"), ("PROCID", "0"), ("NTASKS", "1")] {
        command.env(format!("SLURM_{name}"), value);
    }
    let rank = Guarded::run(&mut command);
    fs::write(cgroup.0.join("cgroup.procs"), rank.pid().0.to_string()).unwrap();
    let daemon = "grep ^0:: /proc/self/cgroup";
    let words = ["job", "attach", "77.0", "--daemon", daemon];
    let got = until(|| {
        let got = monitor().args(words).output().unwrap();
        // It is listed once it has executed its program.
        (got.status.code() != Some(6)).then_some(got)
    });
    let scope = cgroup.0.ancestors().nth(4).unwrap().file_name().unwrap().display();
    let want = format!("[0] 0::/{scope}/job_77/step_0/user/task_0\n");
    assert_eq!(String::from_utf8(got.stdout).unwrap(), want);
    assert_eq!(String::from_utf8(got.stderr).unwrap(), "");
    // Slurm kills what is in the cgroup of a step when that ends.
    let daemon = "echo $$; exec sleep 1000";
    let mut command = monitor();
    let mut attached = Guarded::run(command.args(["job", "attach", "77.0", "--daemon", daemon]));
    let line = attached.line();
    let pid: u32 = line.strip_prefix("[0] ").unwrap().parse().unwrap();
    fs::write(cgroup.0.join("cgroup.kill"), "1").unwrap();
    until(|| super::has_ended(Pid(pid)).then_some(()));
    assert_eq!(attached.0.wait().unwrap().code(), Some(137));
    drop(rank);
}
