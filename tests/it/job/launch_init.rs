//! `job launch --stop init`: ranks that are held where they call `MPI_Init`, however they do, and
//! that run on when the command is killed, or when some of them never call it.

use super::launch::{launch, status};
use super::{Noticed, listed, printed, ranks_of, state};
use crate::deadline;
use crate::probe::fixture::folder;
use crate::probe::mpi::{Library, MPICH, OPEN_MPI, compile};
use monitor_model::id::Pid;
use serde_json::Value;
use std::path::PathBuf;

struct Launched(Noticed);

impl Launched {
    fn new(options: &[&str], line: &[String]) -> Self {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let options = [&["--stop", "init"], options].concat();
        Self(Noticed::run(&mut launch(&options, &words)))
    }

    /// The lines that the ranks print next, in order.
    fn lines(&mut self, n: usize) -> Vec<String> {
        let mut lines: Vec<String> = (0..n).map(|_| self.0.command.line()).collect();
        lines.sort();
        lines
    }

    /// Ends with the ranks.
    #[track_caller]
    fn ends(self) {
        assert_eq!(self.0.end(), (String::new(), Some(0)));
    }
}

/// The functions of the first thread of a rank, outermost first.
fn functions(job: &str) -> Vec<String> {
    let tree = printed(&["job", "stacks", job, "--format", "folded", "--threads"]);
    tree.lines().flat_map(|line| line.split([';', ' '])).map(str::to_owned).collect()
}

/// Ranks of a program that calls as its words say.
#[track_caller]
fn check_held(line: &[String], function: &str) {
    let is_shell = line.iter().any(|it| it == "sh");
    let mut launched = Launched::new(&[], line);
    assert_eq!(launched.lines(3), ["begins"; 3]);
    let notice = launched.0.notice();
    assert!(notice.contains(": held ranks 0-2 on "), "{notice}");
    let id = notice["monitor: job ".len()..].split(':').next().unwrap();
    let job: Value = listed(|it| it["id"] == id).unwrap();
    let launcher = Pid(u32::try_from(job["launcher_pid"].as_u64().unwrap()).unwrap());
    // The shell around a program waits for it.
    assert_eq!(job["state"], if is_shell { "running" } else { "stopped" });
    let ranks = ranks_of(id);
    assert!(ranks.iter().all(|pid| state(*pid) == if is_shell { 'S' } else { 'T' }));
    let traced = ranks.iter().chain([&launcher]).map(|pid| status(*pid).tracerpid);
    assert_eq!(traced.sum::<i32>(), 0);
    // Of two names of one address, either.
    let stack = functions(id);
    assert!(stack.iter().any(|it| it.trim_start_matches('P') == function), "{stack:?}");
    let text = printed(&["job", "release", id]);
    assert!(text.contains(": released ranks 0-2 on "), "{text}");
    assert_eq!(launched.lines(3), ["rank 0", "rank 1", "rank 2"]);
    launched.ends();
}

#[track_caller]
fn check_library(test: &str, library: &Library, file: &str) {
    let Some(program) = library.build(test, "init.c") else { return };
    let program = program.to_str().unwrap();
    check_held(&library.command_line(3, &[program, "main"]), "MPI_Init");
    check_held(&library.command_line(3, &[program, "thread"]), "MPI_Init_thread");
    // A shell around it has the number of the rank, too.
    let script = format!("true; {program} main; true");
    check_held(&library.command_line(3, &["sh", "-c", &script]), "MPI_Init");
    let loads = compile("cc", &format!("{test}-loads"), "init.c", &["-DLOADS"]);
    check_held(&library.command_line(3, &[loads.to_str().unwrap(), "load", file]), "MPI_Init");
}

#[test]
fn ranks_are_held_where_they_call_mpi_init() {
    const TEST: &str = "ranks_are_held_where_they_call_mpi_init";
    check_library(TEST, &OPEN_MPI, "libmpi.so.40");
    check_library(TEST, &MPICH, "libmpich.so.12");
}

/// A file, and two ranks of which the second calls when there is such a file.
fn gated(test: &str, library: &Library) -> Option<(PathBuf, Vec<String>)> {
    let program = library.build(test, "init.c")?;
    let gate = folder(test).join("gate");
    let _before = std::fs::remove_file(&gate);
    let words = [program.to_str()?, "after", gate.to_str()?];
    let line = library.command_line(2, &words);
    Some((gate, line))
}

#[test]
fn a_job_runs_if_the_command_is_killed_while_a_rank_waits_in_mpi_init() {
    const TEST: &str = "a_job_runs_if_the_command_is_killed_while_a_rank_waits_in_mpi_init";
    for library in [&OPEN_MPI, &MPICH] {
        let Some((gate, line)) = gated(TEST, library) else { return };
        let mut launched = Launched::new(&[], &line);
        assert_eq!(launched.lines(2), ["begins"; 2]);
        let tracer = deadline::until(|| {
            let job = listed(|it| it["local_ranks"] == 2)?;
            ranks_of(job["id"].as_str()?).into_iter().find(|it| state(*it) == 't').map(status)
        });
        launched.0.command.0.kill().unwrap();
        deadline::until(|| {
            let left = procfs::process::Process::new(tracer.tracerpid);
            left.and_then(|it| it.stat()).is_err().then_some(())
        });
        std::fs::write(&gate, "").unwrap();
        assert_eq!(launched.lines(2), ["rank 0", "rank 1"]);
    }
}

#[test]
fn ranks_that_never_call_mpi_init_run_on() {
    const TEST: &str = "ranks_that_never_call_mpi_init_run_on";
    let Some((gate, line)) = gated(TEST, &OPEN_MPI) else { return };
    let mut launched = Launched::new(&["--within", "200ms"], &line);
    assert_eq!(launched.lines(2), ["begins"; 2]);
    let want = "monitor: 1 ranks called MPI_Init in time and 1 processes of ranks did not; all run \
                on, and none is held (--within sets the time)\n";
    assert_eq!(launched.0.notice(), want);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(launched.lines(2), ["rank 0", "rank 1"]);
    launched.ends();
}

#[test]
fn ranks_run_on_when_the_daemons_beside_them_have_ended() {
    const TEST: &str = "ranks_run_on_when_the_daemons_beside_them_have_ended";
    for library in [&OPEN_MPI, &MPICH] {
        let Some(program) = library.build(TEST, "init.c") else { return };
        let line = library.command_line(2, &[program.to_str().unwrap(), "main"]);
        let daemon = "grep State /proc/$MONITOR_JOB_PID/status; test $MONITOR_JOB_RANK = 0";
        let mut launched = Launched::new(&["--daemon", daemon], &line);
        assert_eq!(launched.lines(2), ["begins"; 2]);
        let notice = launched.0.notice();
        assert!(
            notice.contains("; until the daemons end; to continue before: monitor job "),
            "{notice}"
        );
        let want = ["[0] State:\tT (stopped)", "[1] State:\tT (stopped)"];
        assert_eq!(launched.lines(2), want);
        assert_eq!(
            launched.0.notice(),
            "monitor: the daemon of rank 1 ended with exit status: 1\n"
        );
        assert_eq!(launched.lines(2), ["rank 0", "rank 1"]);
        launched.ends();
    }
}
