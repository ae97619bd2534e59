//! Debuggers that are tools of PMIx, at the host of `job launch -n`: they start jobs that are held,
//! and daemons beside ranks, and what they have started goes on or ends with them.

use super::launch_native::{client, native};
use super::{Noticed, has_ended, listed, ranks_of};
use crate::deadline;
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor};
use monitor_model::id::Pid;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

/// A job of two ranks that sleep.
struct Target {
    id: String,
    uri: String,
    _job: Noticed,
    _folder: Folder,
}

impl Target {
    fn start() -> Self {
        let (mut command, folder) = native(&["-n", "2"], &["sleep", "1000"]);
        let job = Noticed::run(&mut command);
        let id = format!("monitor-{}", job.command.pid().0);
        let _listed = deadline::until(|| listed(|it| it["id"] == *id && it["local_ranks"] == 2));
        let rank = procfs::process::Process::new(ranks_of(&id)[0].0.cast_signed()).unwrap();
        let uri = rank.environ().unwrap()[std::ffi::OsStr::new("PMIX_SERVER_URI41")].clone();
        Self { id, uri: uri.into_string().unwrap(), _job: job, _folder: folder }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // Its host would go on without its command.
        let _ended = monitor().args(["job", "end", &self.id]).output();
    }
}

/// A debugger, whose output is read line by line.
struct Debugger {
    tool: Guarded,
    lines: BufReader<ChildStdout>,
}

impl Debugger {
    fn run(program: &Path, uri: &str, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.arg(uri).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut tool = Guarded::run(&mut command);
        let lines = BufReader::new(tool.0.stdout.take().unwrap());
        Self { tool, lines }
    }

    /// The next line that begins so, without its beginning; others are left out.
    #[track_caller]
    fn after(&mut self, beginning: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "no {beginning}");
            if let Some(rest) = line.trim_end().strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
    }

    fn row(&mut self, rank: u32) -> Pid {
        Pid(self.after(&format!("row {rank} ")).parse().unwrap())
    }

    fn say(&mut self) {
        self.tool.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }
}

fn debugger(test: &str) -> Option<PathBuf> {
    // Each program has a folder of its own.
    client(&format!("{test}_tool"), "pmix_debugger.c")
}

fn state_of(pid: Pid) -> Option<char> {
    Some(procfs::process::Process::new(pid.0.cast_signed()).ok()?.stat().ok()?.state)
}

#[test]
fn a_tool_starts_a_job_that_waits_until_it_releases_it() {
    let test = "a_tool_starts_a_job_that_waits_until_it_releases_it";
    let (Some(tool), Some(waits)) = (debugger(test), client(test, "pmix_waits.c")) else { return };
    let target = Target::start();
    let waits = waits.to_str().unwrap();
    for (place, program, breakpoint, want) in [
        ("exec", &["echo", "text"][..], "pmix-exec", "text"),
        ("init", &[waits], "pmix-init", "rank 0 does not wait"),
        ("app", &[waits], "program", "event -3"),
    ] {
        let words = [&["launch", place], program].concat();
        let mut debugger = Debugger::run(&tool, &target.uri, &words);
        let rank = debugger.row(0);
        assert_eq!(debugger.after("held "), breakpoint);
        if place == "exec" {
            deadline::until(|| (state_of(rank)? == 'T').then_some(()));
        }
        debugger.say();
        // What the ranks write comes as output of the tool.
        debugger.after(want);
        debugger.after("ended");
    }
}

#[test]
fn ranks_that_a_tool_holds_go_on_when_it_is_killed() {
    let test = "ranks_that_a_tool_holds_go_on_when_it_is_killed";
    let (Some(tool), Some(waits)) = (debugger(test), client(test, "pmix_waits.c")) else { return };
    let target = Target::start();
    let waits = waits.to_str().unwrap();
    for (place, program) in [("exec", "true"), ("init", waits), ("app", waits)] {
        let mut debugger = Debugger::run(&tool, &target.uri, &["launch", place, program]);
        let ranks = [debugger.row(0), debugger.row(1)];
        debugger.after("held ");
        debugger.tool.0.kill().unwrap();
        for rank in ranks {
            deadline::until(|| has_ended(rank).then_some(()));
        }
    }
    assert_eq!(listed(|it| it["id"] == *target.id).unwrap()["local_ranks"], 2);
}

#[test]
fn daemons_run_beside_ranks_are_none_of_them_and_end_with_their_tool() {
    let test = "daemons_run_beside_ranks_are_none_of_them_and_end_with_their_tool";
    let (Some(tool), Some(daemon)) = (debugger(test), client(test, "pmix_daemon.c")) else {
        return;
    };
    let target = Target::start();
    let (id, daemon) = (target.id.as_str(), daemon.to_str().unwrap());
    // The second tool ends directly after daemons of the first one have, at the same host.
    for (per, places) in [("proc", &["0", "1"][..]), ("node", &["all"])] {
        let pids = ranks_of(id).iter().map(|it| it.0.to_string()).collect::<Vec<_>>().join(" ");
        let mut debugger = Debugger::run(&tool, &target.uri, &["daemons", id, per, daemon]);
        let mut said: Vec<String> = places.iter().map(|_| debugger.after("daemon ")).collect();
        said.sort();
        let want = |(number, place)| format!("{number} of {id} beside {place}: {pids}");
        assert_eq!(said, places.iter().enumerate().map(want).collect::<Vec<_>>());
        let is_beside =
            |it: &procfs::process::Process| it.exe().is_ok_and(|path| path == Path::new(daemon));
        let daemons = || {
            let all = procfs::process::all_processes().unwrap().flatten();
            all.filter(is_beside).count()
        };
        assert_eq!(daemons(), places.len());
        assert!(listed(|it| it["id"].as_str().unwrap().contains("daemons")).is_none());
        assert_eq!(listed(|it| it["id"] == *id).unwrap()["local_ranks"], 2);
        debugger.tool.0.kill().unwrap();
        deadline::until(|| (daemons() == 0).then_some(()));
    }
}
