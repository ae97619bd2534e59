//! The example tools beside parallel jobs, in Python, C and Rust: `docs/examples/rank_tool.*`.

use super::{OPEN_MPI, RunningJob, state};
use crate::client::tool::{c_example, examples};
use crate::deadline;
use crate::root::privilege::{USER, able};
use crate::served::{Folder, Served, monitor};
use monitor_model::id::Pid;
use procfs::process::{MMapPath, Process};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first rank prints what it reads.
const SCRIPT: &str = "if [ $RANK = 0 ]; then exec cat; else exec sleep 1000; fi";

/// What a tool prints last of a rank.
enum Where {
    Names,
    ProgramCounter,
}

/// A job whose ranks execute their programs, and wait.
fn waiting_job(test: &str) -> Option<(RunningJob, Vec<Pid>)> {
    let job = OPEN_MPI.start(test, 3, SCRIPT)?;
    let ranks = job.ranks();
    let waits = |pid: &Pid| {
        let program = Process::new(pid.0.cast_signed()).unwrap().exe().unwrap();
        let is_there = program.ends_with("cat") || program.ends_with("sleep");
        is_there && state(*pid) == 'S'
    };
    deadline::until(|| ranks.iter().all(waits).then_some(()));
    Some((job, ranks))
}

/// The lines of a command that succeeds, in alphabetical order, without the rank before them.
#[track_caller]
fn lines(command: &mut Command, service: &Served) -> Vec<String> {
    let got = command.env("MONITOR_SOCKET", service.socket()).output().unwrap();
    assert!(got.status.success(), "{got:?}");
    let text = String::from_utf8(got.stdout).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// A line of a rank: its process, that it waits, its CPU time, and where it is.
#[track_caller]
fn check_line(line: &str, (rank, pid): (usize, Pid), place: &Where) {
    let head = format!("rank {rank}: process {} S ", pid.0);
    let rest = line.strip_prefix(&head).unwrap_or_else(|| panic!("{line}: expected {head}"));
    match place {
        Where::Names => {
            let (cpu, names) = rest.split_once(" s in ").unwrap();
            let called = if rank == 0 { "read" } else { "clock_nanosleep" };
            assert!(cpu.parse::<f64>().unwrap() < 60.0 && names.starts_with(called), "{line}");
            // Programs of the system have no symbols of their own.
            assert!(names.contains(" < 0x") && names.contains("__libc_start_main"), "{line}");
        }
        Where::ProgramCounter => {
            let (cpu, at) = rest.split_once(" s at 0x").unwrap();
            let at = u64::from_str_radix(at, 16).unwrap();
            let maps = Process::new(pid.0.cast_signed()).unwrap().maps().unwrap();
            let map = maps.iter().find(|it| (it.address.0..it.address.1).contains(&at)).unwrap();
            let MMapPath::Path(file) = &map.pathname else { panic!("{line}: {map:?}") };
            assert!(cpu.parse::<f64>().unwrap() < 60.0, "{line}");
            assert!(file.to_string_lossy().contains("libc.so"), "{line}: {file:?}");
        }
    }
}

/// The tool beside a job, its daemon beside each rank, and what it says without a job or a service.
#[track_caller]
fn check(test: &str, tool: &Path, place: &Where) {
    let Some((mut job, ranks)) = waiting_job(test) else { return };
    let service = Served::start("procfs");
    let pid = job.pid();
    let ranks_run_on = || {
        deadline::until(|| ranks.iter().all(|pid| state(*pid) == 'S').then_some(()));
    };
    let printed = lines(Command::new(tool).arg(&pid), &service);
    assert_eq!(printed.len(), 3, "{printed:?}");
    for (line, rank) in printed.iter().zip(ranks.iter().copied().enumerate()) {
        check_line(line, rank, place);
    }
    ranks_run_on();
    let mut attach = monitor();
    attach.args(["job", "attach", &pid, "--per", "process", "--daemon"]).arg(tool);
    let printed = lines(&mut attach, &service);
    assert_eq!(printed.len(), 3, "{printed:?}");
    for (line, rank) in printed.iter().zip(ranks.iter().copied().enumerate()) {
        check_line(line.strip_prefix(&format!("[{}] ", rank.0)).unwrap(), rank, place);
    }
    ranks_run_on();
    job.launcher.send_line("on");
    assert_eq!(job.launcher.line(), "on");

    let fails = |socket: &Path, reason: &str| {
        let mut command = Command::new(tool);
        let got = command.arg("nosuch").env("MONITOR_SOCKET", socket).output().unwrap();
        let message = String::from_utf8(got.stderr).unwrap();
        assert_eq!((got.status.code(), got.stdout.len()), (Some(1), 0), "{message}");
        assert!(message.starts_with("rank_tool: ") && message.contains(reason), "{message}");
    };
    fails(service.socket(), "job_info(300,0,\"no job \\\"nosuch\\\"");
    fails(Path::new("/nowhere"), "no daemon answers at /nowhere");
}

#[test]
fn the_example_in_python_shows_the_ranks_of_a_job() {
    let tool = examples().join("rank_tool.py");
    check("the_example_in_python_shows_the_ranks_of_a_job", &tool, &Where::Names);
}

#[test]
fn the_example_in_c_shows_the_ranks_of_a_job() {
    let folder = Folder::new();
    let tool = c_example(&folder, "rank_tool");
    check("the_example_in_c_shows_the_ranks_of_a_job", &tool, &Where::ProgramCounter);
}

#[test]
fn the_example_in_rust_shows_the_ranks_of_a_job() {
    check("the_example_in_rust_shows_the_ranks_of_a_job", &in_rust("rank_tool"), &Where::Names);
}

/// The example that cargo builds with the tests.
pub fn in_rust(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().with_file_name("examples").join(name)
}

#[test]
fn root_the_job_of_a_user_is_the_only_one_that_their_tool_finds() {
    const TEST: &str = "root_the_job_of_a_user_is_the_only_one_that_their_tool_finds";
    if !able(TEST) {
        return;
    }
    let Some(foreign) = OPEN_MPI.start(TEST, 1, "exec sleep 1000") else { return };
    // The other user may not enter the folders of the build.
    let folder = Folder::new();
    let tool = folder.join("rank_tool");
    let _bytes = std::fs::copy(in_rust("rank_tool"), &tool).unwrap();
    let run = |service: &Served, job: &[&str]| {
        let mut command = Command::new(&tool);
        command.args(job).env("MONITOR_SOCKET", service.socket()).uid(USER).gid(USER);
        let got = command.output().unwrap();
        [got.stdout, got.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let config = format!("[policy]\ncontrol-own = [\"{USER}\"]\n");
    let granted = Served::started(&config, monitor(), "procfs");
    let [_, message] = run(&granted, &[]);
    assert_eq!(message, "rank_tool: no parallel job is visible on this node\n");
    let [_, message] = run(&granted, &[&foreign.pid()]);
    assert!(message.contains("job_info(300,"), "{message}");

    let job = OPEN_MPI.start_as(USER, 2, "exec sleep 1000");
    let ranks = job.ranks();
    let [printed, message] = run(&granted, &[]);
    assert_eq!((printed.lines().count(), &*message), (2, ""), "{printed}");
    for (rank, (line, pid)) in printed.lines().zip(&ranks).enumerate() {
        assert!(line.starts_with(&format!("rank {rank}: process {} ", pid.0)), "{line}");
    }
    let [printed, message] = run(&Served::start("procfs"), &[]);
    assert!(printed.is_empty() && message.contains("job_hold(400,"), "{message}");
    assert!(message.contains("control-own"), "{message}");
    deadline::until(|| ranks.iter().all(|pid| state(*pid) == 'S').then_some(()));
}

#[test]
fn the_page_shows_the_example_as_it_is() {
    let page = examples().join("../JOBS.md");
    let page = std::fs::read_to_string(page).unwrap();
    let tool = std::fs::read_to_string(examples().join("rank_tool.py")).unwrap();
    assert!(
        page.contains(&format!("```python\n{tool}```\n")),
        "docs/JOBS.md differs from the file"
    );
}
