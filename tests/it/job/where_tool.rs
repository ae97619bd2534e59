//! The example tools that show where ranks are: `docs/examples/where_tool.*`.

use super::rank_tool::in_rust;
use crate::client::tool::{c_example, examples};
use crate::deadline;
use crate::probe::mpi::{self, Ranks};
use crate::served::{Folder, Served};
use std::path::Path;
use std::process::{Command, Output};

const COMMAND: &str = "echo \"beside\" $MONITOR_JOB_RANK; grep ^Pid: /proc/$MONITOR_JOB_PID/status";

/// What the tool prints of a job whose ranks are at two places, and of none.
#[track_caller]
fn check(test: &str, tool: &Path) {
    let Some(mut ranks) = Ranks::start_many(test, &mpi::OPEN_MPI, 3) else { return };
    let service = Served::start("procfs");
    let run = |words: &[&str]| -> Output {
        let mut command = Command::new(tool);
        command.args(words).env("MONITOR_SOCKET", service.socket()).output().unwrap()
    };
    let job = ranks.starter_pid().0.to_string();
    let text = deadline::until(|| {
        let got = run(&[&job, COMMAND]);
        assert!(got.status.success() && got.stderr.is_empty(), "{got:?}");
        let text = String::from_utf8(got.stdout).unwrap();
        text.contains("fgets").then_some(text).filter(|it| it.contains("ranks 1-2: "))
    });
    let lines: Vec<&str> = text.lines().collect();
    let beside = |rank: usize| {
        let pid = ranks.pids[rank].0;
        [format!("beside {rank}"), format!("Pid:\t{pid}")]
    };
    assert!(lines[0].starts_with("ranks 1-2: main > "), "{text}");
    assert!(lines[0].ends_with("MPI_Bcast"), "{text}");
    assert_eq!(lines[1..3], beside(1));
    let second = lines.iter().position(|it| it.starts_with("ranks 0: main > ")).unwrap();
    assert_eq!(lines[second + 1..second + 3], beside(0));
    assert_eq!(String::from_utf8(run(&[&job]).stdout).unwrap().lines().count(), 2);
    let got = run(&["nosuch"]);
    let message = String::from_utf8(got.stderr).unwrap();
    assert_eq!((got.status.code(), got.stdout.len()), (Some(1), 0), "{message}");
    assert!(message.starts_with("where_tool: ") && message.contains("(300,0,"), "{message}");
    // The program goes on as before.
    ranks.run("fill 3");
    ranks.end();
}

#[test]
fn the_example_in_python_shows_where_ranks_are() {
    let tool = examples().join("where_tool.py");
    check("the_example_in_python_shows_where_ranks_are", &tool);
}

#[test]
fn the_example_in_c_shows_where_ranks_are() {
    let folder = Folder::new();
    check("the_example_in_c_shows_where_ranks_are", &c_example(&folder, "where_tool"));
}

#[test]
fn the_example_in_rust_shows_where_ranks_are() {
    check("the_example_in_rust_shows_where_ranks_are", &in_rust("where_tool"));
}
