//! A job of eight ranks is attached to again and again: its table, its stacks, daemons beside held
//! ranks. It ends with its own status, its code is unchanged, nothing is stopped or traced, and its
//! launcher has as many connections as before.
//!
//! In: how many rounds for each runtime. Out: for each runtime, rounds and jobs.
//! `cargo xtask soak jobs` runs a hundred; the tests run one.

use super::random::given;
use crate::deadline::until;
use crate::job::gate::{processes, ranks, runs_free};
use crate::job::job_of;
use crate::job::runtime::{CaseRuntime, RUNTIMES, Start};
use crate::job::slurm_node::SlurmNode;
use crate::root::harmless::changed_code;
use crate::root::privilege::able;
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Rounds for each runtime, unless `MONITOR_SOAK_ROUNDS` is set.
const ROUNDS: u64 = 1;
/// Rounds on one job.
const ON_ONE_JOB: u64 = 10;
const RANKS: usize = 8;
/// The status of each rank, and so of its job.
const STATUS: i32 = 3;

/// What is done in a round; each command ends, and is then no longer attached.
const COMMANDS: [&[&str]; 5] = [
    &["show", "--mpir"],
    &["show", "--for", "20ms", "--backend", "procfs"],
    &["stacks", "--threads"],
    &["attach", "--daemon", "test -d /proc/$MONITOR_JOB_PID"],
    &["attach", "--hold", "--per", "node", "--daemon", "test -n \"$MONITOR_JOB_PIDS\""],
];

/// Starts `n` ranks of a program that wait for a file. Without a launcher, by this program.
pub fn start(runtime: &CaseRuntime, node: Option<&SlurmNode>, program: &[String]) -> Command {
    let mut command = match runtime.start {
        Start::Native => {
            let mut command = monitor();
            command.args(["job", "launch", "-n", &RANKS.to_string(), "--"]);
            command
        }
        Start::Launcher(_) | Start::Slurm => {
            let launcher = runtime.launcher(RANKS);
            let mut command = Command::new(&launcher[0]);
            command.args(&launcher[1..]);
            command
        }
    };
    command.args(program);
    runtime.set_environment(&mut command);
    node.into_iter().for_each(|node| node.set_environment(&mut command));
    command
}

/// The open sockets of a process.
fn sockets(pid: u64) -> usize {
    let all = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = all.filter_map(|it| std::fs::read_link(it.path()).ok());
    targets.filter(|it| it.to_string_lossy().starts_with("socket:")).count()
}

/// Rounds on one job.
fn attach(runtime: &CaseRuntime, node: Option<&SlurmNode>, program: &Path, rounds: u64) {
    let folder = Folder::new();
    let gate = folder.join("gate").display().to_string();
    let words = [program.display().to_string(), gate.clone(), "status".to_owned()];
    let mut command = start(runtime, node, &words);
    command.env("TMPDIR", folder.join("")).stderr(Stdio::null());
    let mut job = Guarded::run(&mut command);
    // All of them have called MPI_Init.
    for _ in 0..RANKS {
        assert!(job.line().starts_with("rank "), "{}", runtime.name);
    }
    let ranks = ranks(&gate);
    assert_eq!(ranks.len(), RANKS);
    let first = ranks[0].to_string();
    let launcher = job_of(ranks[0]).unwrap()["launcher_pid"].as_u64();
    let before = launcher.map(sockets);
    // UCX of Open MPI 5 changes functions of the C library itself.
    let code = |pid: &i32| changed_code(pid.cast_unsigned());
    let changed: Vec<_> = ranks.iter().map(code).collect();
    for _ in 0..rounds {
        for words in COMMANDS {
            let mut command = monitor();
            command.args(["job", words[0], &first]).args(&words[1..]);
            let got = command.output().unwrap();
            let said = String::from_utf8_lossy(&got.stderr);
            assert_eq!(got.status.code(), Some(0), "{} {words:?}: {said}", runtime.name);
            until(|| ranks.iter().all(|it| runs_free(*it)).then_some(()));
            assert_eq!(launcher.map(sockets), before, "{} {words:?}", runtime.name);
        }
    }
    assert_eq!(ranks.iter().map(code).collect::<Vec<_>>(), changed, "{}", runtime.name);
    std::fs::write(&gate, "").unwrap();
    let status = until(|| job.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(STATUS), "{}", runtime.name);
    until(|| processes(&gate).is_empty().then_some(()));
}

#[test]
fn root_a_job_that_is_attached_to_again_and_again_ends_with_its_own_status() {
    const TEST: &str = "root_a_job_that_is_attached_to_again_and_again_ends_with_its_own_status";
    if !able(TEST) {
        return;
    }
    let rounds = given("MONITOR_SOAK_ROUNDS").unwrap_or(ROUNDS);
    for runtime in &RUNTIMES {
        let Some(program) = runtime.built(TEST) else { continue };
        let Some(node) = runtime.node(TEST) else { continue };
        let begun = Instant::now();
        let (mut left, mut jobs) = (rounds, 0);
        while left > 0 {
            let now = left.min(ON_ONE_JOB);
            attach(runtime, node.as_ref(), &program, now);
            (left, jobs) = (left - now, jobs + 1);
        }
        let name = runtime.name;
        println!("soak: {name}: {rounds} rounds on {jobs} jobs, {:.0?}", begun.elapsed());
    }
}
