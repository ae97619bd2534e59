//! `job launch --stop` with Slurm's `srun`, whose ranks are children of slurmstepd: what a step is
//! made of, what starts it, and what becomes of ranks when something fails or is killed.

use super::slurm_node::SlurmNode;
use super::{Noticed, listed, printed, ranks_of, state};
use crate::deadline::until;
use crate::golden::as_other_user;
use crate::probe::fixture::folder;
use crate::probe::mpi::OPEN_MPI;
use crate::served::monitor;
use monitor_model::id::Pid;
use procfs::process::Process;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

/// A task that prints its number.
const PRINTS: &[&str] = &["sh", "-c", "echo $SLURM_PROCID"];

fn launch(node: &SlurmNode, options: &[&str], line: &[&str]) -> Command {
    let mut command = monitor();
    command.args(["job", "launch"]).args(options).arg("--").args(line);
    node.set_environment(&mut command);
    command
}

/// The lines that ranks print next, in order.
#[track_caller]
fn lines(launched: &mut Noticed, n: usize) -> Vec<String> {
    let mut lines: Vec<String> = (0..n).map(|_| launched.command.line()).collect();
    lines.sort();
    if lines.iter().any(String::is_empty) {
        panic!("{lines:?}, {:?}", launched.notice());
    }
    lines
}

/// The job whose ranks a notice says are held; srun may have lines before.
#[track_caller]
fn held_job(launched: &mut Noticed, ranks: &str) -> String {
    let mut notice = launched.notice();
    while notice.starts_with("srun: ") {
        notice = launched.notice();
    }
    assert!(notice.contains(&format!(": held ranks {ranks} on ")), "{notice}");
    notice["monitor: job ".len()..].split(':').next().unwrap().to_owned()
}

/// Ranks are stopped and not traced, print nothing before their release, and their numbers then.
#[track_caller]
fn check_held(mut launched: Noticed, n: usize) {
    let id = held_job(&mut launched, &format!("0-{}", n - 1));
    let ranks = ranks_of(&id);
    assert_eq!(ranks.len(), n);
    for pid in &ranks {
        let tracer = Process::new(pid.0.cast_signed()).unwrap().status().unwrap().tracerpid;
        assert_eq!((state(*pid), tracer), ('T', 0));
    }
    let _line = printed(&["job", "release", &id]);
    let numbers: Vec<String> = (0..n).map(|rank| rank.to_string()).collect();
    assert_eq!(lines(&mut launched, n), numbers);
    assert_eq!(launched.end(), (String::new(), Some(0)));
}

#[test]
fn root_tasks_of_nodes_components_and_scripts_are_held() {
    const TEST: &str = "root_tasks_of_nodes_components_and_scripts_are_held";
    let Some(node) = SlurmNode::start_two(TEST) else { return };
    let check = |options: &[&str], line: &[&str]| {
        let options = [&["--stop", "exec"], options].concat();
        check_held(Noticed::run(&mut launch(&node, &options, line)), 3);
    };
    check(&["--with", "srun"], &[&["srun", "-N", "2", "-n", "3"], PRINTS].concat());
    check(&[], &[&["srun", "-n1"], PRINTS, &[":", "-n2"], PRINTS].concat());
    check(&[], &[&["sh", "-c", "srun -n 3 \"$@\"", "sh"], PRINTS].concat());
    let script = "sh -c 'echo $SLURM_PROCID'; true";
    check(&["--stop-at", "dash"], &["srun", "-n", "3", "env", "sh", "-c", script]);
}

#[test]
fn root_tasks_are_held_for_a_user_without_privilege() {
    const TEST: &str = "root_tasks_are_held_for_a_user_without_privilege";
    let Some(node) = SlurmNode::start(TEST) else { return };
    for stop in ["exec", "init"] {
        let Some(program) = OPEN_MPI.build(TEST, "init.c") else { return };
        // Other users have no access to the folder of the build.
        let copy = node.folder.join("init");
        std::fs::copy(program, &copy).unwrap();
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = as_other_user(&node.folder, &["job", "launch", "--stop", stop, "--"]);
        command.args(["srun", "--mpi=pmix", "-n", "2", copy.to_str().unwrap(), "main"]);
        node.set_environment(command.env("PATH", "/usr/bin:/bin"));
        let mut launched = Noticed::run(&mut command);
        let id = held_job(&mut launched, "0-1");
        assert!(ranks_of(&id).into_iter().all(|pid| state(pid) == 'T'));
        let _line = printed(&["job", "release", &id]);
        assert_eq!(lines(&mut launched, 4), ["begins", "begins", "rank 0", "rank 1"]);
        assert_eq!(launched.end(), (String::new(), Some(0)));
    }
}

#[test]
fn root_a_step_that_is_not_held_runs_and_says_why() {
    const TEST: &str = "root_a_step_that_is_not_held_runs_and_says_why";
    let Some(node) = SlurmNode::start(TEST) else { return };
    let said = |options: &[&str], line: &[&str]| {
        let got = launch(&node, options, line).output().unwrap();
        (String::from_utf8(got.stderr).unwrap(), got.status.code())
    };
    // It gets no allocation.
    let (text, code) = said(&["--stop", "exec"], &["srun", "-p", "none", "true"]);
    let ended = "monitor: the launcher ended before all ranks of this node were held\n";
    assert!(text.ends_with(ended) && code == Some(1), "{code:?} {text}");
    // No function is called.
    let options = ["--stop", "init", "--within", "200ms"];
    let (text, code) = said(&options, &["srun", "-n", "2", "sh", "-c", "sleep 1; exit 3"]);
    let want = "monitor: 0 ranks called MPI_Init in time and ";
    assert!(text.starts_with(want) && code == Some(3), "{code:?} {text}");
    // A launcher without the table.
    let other = node.folder.join("srun");
    std::fs::copy("/bin/false", &other).unwrap();
    let (text, code) = said(&["--stop", "exec"], &[other.to_str().unwrap()]);
    assert!(text.contains("has no symbols of MPIR: ") && code == Some(1), "{code:?} {text}");
}

/// Two ranks of which the second calls `MPI_Init` when there is a file, and the tracer.
fn gated(test: &str, node: &SlurmNode) -> Option<(Noticed, PathBuf, Pid)> {
    let program = OPEN_MPI.build(test, "init.c")?;
    let gate = folder(test).join("gate");
    let _before = std::fs::remove_file(&gate);
    let line = ["srun", "--mpi=pmix", "-n", "2", program.to_str()?, "after", gate.to_str()?];
    let mut launched = Noticed::run(&mut launch(node, &["--stop", "init"], &line));
    assert_eq!(lines(&mut launched, 2), ["begins"; 2]);
    let tracer = until(|| {
        let job = listed(|it| it["runtime"] == "slurm" && it["local_ranks"] == 2)?;
        let held = ranks_of(job["id"].as_str()?).into_iter().find(|it| state(*it) == 't')?;
        let status = Process::new(held.0.cast_signed()).ok()?.status().ok()?;
        // It is a thread.
        let tracer = Process::new(status.tracerpid).ok()?.status().ok()?.tgid;
        Some(Pid(tracer.cast_unsigned()))
    });
    Some((launched, gate, tracer))
}

#[test]
fn root_a_step_runs_if_the_command_or_its_tracer_is_killed_while_a_rank_waits() {
    const TEST: &str = "root_a_step_runs_if_the_command_or_its_tracer_is_killed_while_a_rank_waits";
    let Some(node) = SlurmNode::start(TEST) else { return };
    for kills_tracer in [false, true] {
        let Some((mut launched, gate, tracer)) = gated(TEST, &node) else { return };
        match kills_tracer {
            true => super::kill(tracer),
            false => launched.command.0.kill().unwrap(),
        }
        // Until all its threads have ended, its breakpoints may be there.
        until(|| {
            let left = Process::new(tracer.0.cast_signed()).and_then(|it| it.stat());
            left.is_err().then_some(())
        });
        std::fs::write(&gate, "").unwrap();
        assert_eq!(lines(&mut launched, 2), ["rank 0", "rank 1"]);
        until(|| listed(|it| it["runtime"] == "slurm").is_none().then_some(()));
    }
}
