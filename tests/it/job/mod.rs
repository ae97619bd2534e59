//! `monitor job` and the services `job_`, on jobs of real launchers.

mod act;
mod attach;
mod bad_input;
mod calls;
mod case;
mod doctor;
mod end;
mod env;
mod environment;
mod events;
pub mod gate;
mod held_background;
mod launch;
mod launch_init;
pub mod launch_native;
mod launch_states;
mod launcher_output;
mod list;
mod native_debugger;
mod native_host;
mod native_monitor;
mod native_rendezvous;
mod pmix_launch;
mod query;
mod rank_tool;
pub mod runtime;
mod service;
mod service_calls;
mod service_launch;
mod service_tools;
mod show;
mod slurm;
mod slurm_launch;
pub mod slurm_node;
mod slurm_step;
mod stacks;
mod where_tool;

use crate::deadline;
use crate::root::privilege::{granted, skip};
use crate::root::workload::Guarded;
use crate::served::monitor;
use monitor_model::id::Pid;
use rustix::process::{Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};

/// How a launcher starts programs that are no MPI programs.
pub struct Launcher {
    /// The program.
    starter: &'static str,
    words: &'static [&'static str],
    packages: &'static str,
    /// The runtime, as `job list` names it.
    pub runtime: &'static str,
    /// The variable that has the rank.
    pub rank: &'static str,
}

/// Open MPI 4.
pub const OPEN_MPI: Launcher = Launcher {
    starter: "/usr/bin/mpirun.openmpi",
    words: &["--allow-run-as-root", "--oversubscribe"],
    packages: "Open MPI (apt install openmpi-bin)",
    runtime: "openmpi4",
    rank: "OMPI_COMM_WORLD_RANK",
};
/// Hydra of MPICH.
pub const HYDRA: Launcher = Launcher {
    starter: "/usr/bin/mpiexec.mpich",
    words: &[],
    packages: "MPICH (apt install mpich)",
    runtime: "hydra",
    rank: "PMI_RANK",
};

/// A running job; the launcher is ended with the test, and so are its ranks.
pub struct RunningJob {
    pub launcher: Guarded,
    n: usize,
}

impl Launcher {
    /// Starts `n` ranks of a shell script, and waits until they are listed. Without the launcher
    /// the test is skipped, or fails if skips are not allowed.
    pub fn start(&self, test: &str, n: usize, script: &str) -> Option<RunningJob> {
        if !Path::new(self.starter).exists() {
            skip(test, &format!("needs {}", self.packages));
            return None;
        }
        // Without privilege no test loads BPF programs, which would see the processes of this one.
        let _turn = rustix::process::geteuid().is_root() && granted(test);
        Some(RunningJob::listed_of(&mut self.command(n, script), n))
    }

    /// The same as this user, by a test that has its turn.
    pub fn start_as(&self, user: u32, n: usize, script: &str) -> RunningJob {
        let mut command = self.command(n, script);
        command.uid(user).gid(user).current_dir("/").env("HOME", "/tmp");
        RunningJob::listed_of(&mut command, n)
    }

    fn command(&self, n: usize, script: &str) -> Command {
        let mut command = Command::new(self.starter);
        let script = script.replace("$RANK", &format!("${}", self.rank));
        command.args(self.words).args(["-n", &n.to_string(), "sh", "-c", &script]);
        command
    }
}

impl RunningJob {
    /// Runs a launcher, and waits until its ranks are listed.
    fn listed_of(launcher: &mut Command, n: usize) -> Self {
        let job = Self { launcher: Guarded::run(launcher), n };
        let _listed = deadline::until(|| job.listed().filter(|it| it["local_ranks"] == n));
        job
    }

    /// The pid of the launcher, as text.
    pub fn pid(&self) -> String {
        self.launcher.pid().0.to_string()
    }

    /// The job in `job list`, if it is there.
    pub fn listed(&self) -> Option<Value> {
        listed(|it| it["launcher_pid"] == self.launcher.pid().0)
    }

    /// The processes of its ranks, by rank.
    pub fn ranks(&self) -> Vec<Pid> {
        let table = mpir(&self.pid());
        assert_eq!(table.len(), self.n);
        table.into_iter().map(|[_, _, pid]| Pid(pid.parse().unwrap())).collect()
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        // A launcher that has ended, or is killed, may leave its ranks.
        if let Some(job) = self.listed() {
            ranks_of(job["id"].as_str().unwrap()).into_iter().for_each(kill_group);
        }
    }
}

/// Ends a process; it may have ended.
pub fn kill(pid: Pid) {
    let pid = i32::try_from(pid.0).ok().and_then(rustix::process::Pid::from_raw);
    let _ended = pid.map(|pid| kill_process(pid, Signal::KILL));
}

/// The state of a process, as ps(1) prints it.
pub fn state(pid: Pid) -> char {
    let stat = procfs::process::Process::new(pid.0.cast_signed()).unwrap().stat().unwrap();
    stat.state
}

/// Whether a process has ended; it may be a zombie.
pub fn has_ended(pid: Pid) -> bool {
    let stat = procfs::process::Process::new(pid.0.cast_signed()).and_then(|it| it.stat());
    stat.map_or(true, |it| it.state == 'Z')
}

/// Ends a rank with its children: a launcher starts each rank, or itself, in a group of its own.
fn kill_group(pid: Pid) {
    let pid = i32::try_from(pid.0).ok().and_then(rustix::process::Pid::from_raw);
    let group = pid.and_then(|pid| rustix::process::getpgid(Some(pid)).ok());
    let group = group.filter(|group| *group != rustix::process::getpgrp());
    let _ended = group.map(|group| kill_process_group(group, Signal::KILL));
}

/// The processes of the ranks of a job that has an id.
pub fn ranks_of(id: &str) -> Vec<Pid> {
    mpir(id).into_iter().map(|[_, _, pid]| Pid(pid.parse().unwrap())).collect()
}

/// The first listed job that is as wanted.
pub fn listed(is_wanted: impl Fn(&Value) -> bool) -> Option<Value> {
    let text = printed(&["job", "list", "--format", "json"]);
    let all: Value = serde_json::from_str(&text).unwrap();
    all["jobs"].as_array().unwrap().iter().find(|it| is_wanted(it)).cloned()
}

/// Host, executable and pid of each rank.
pub fn mpir(job: &str) -> Vec<[String; 3]> {
    let text = printed(&["job", "show", job, "--mpir"]);
    let row = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        cells.try_into().unwrap()
    };
    text.lines().map(row).collect()
}

/// The ranks of a job in `job show`, measured over a moment without BPF programs.
pub fn shown(job: &str, span: &str) -> Value {
    let words = ["job", "show", job, "--for", span, "--format", "json", "--backend", "procfs"];
    serde_json::from_str(&printed(&words)).unwrap()
}

/// The job of a process with its ranks, if it has one.
pub fn job_of(pid: i32) -> Option<Value> {
    let pid = pid.to_string();
    let words = ["job", "show", &pid, "--for", "1ms", "--format", "json", "--backend", "procfs"];
    let got = monitor().args(words).output().unwrap();
    let table: Option<Value> = serde_json::from_slice(&got.stdout).ok();
    table.map(|it| it["job"].clone())
}

/// The output of a command that succeeds.
#[track_caller]
pub fn printed(words: &[&str]) -> String {
    let got = monitor().args(words).output().unwrap();
    let stderr = String::from_utf8_lossy(&got.stderr).into_owned();
    assert!(got.status.success(), "{words:?}: {stderr}");
    String::from_utf8(got.stdout).unwrap()
}

/// The exit code and the message of a command that fails.
#[track_caller]
pub fn failed(command: &mut Command) -> (Option<i32>, String) {
    let got = command.output().unwrap();
    assert!(got.stdout.is_empty(), "standard output is empty");
    (got.status.code(), String::from_utf8(got.stderr).unwrap())
}

/// A running command whose notices are read.
pub struct Noticed {
    pub command: Guarded,
    notices: BufReader<ChildStderr>,
}

impl Noticed {
    pub fn run(command: &mut Command) -> Self {
        let mut command = Guarded::run(command.stderr(Stdio::piped()));
        let notices = BufReader::new(command.0.stderr.take().unwrap());
        Self { command, notices }
    }

    /// The next line.
    pub fn notice(&mut self) -> String {
        let mut line = String::new();
        let _bytes = self.notices.read_line(&mut line).unwrap();
        line
    }

    /// What follows until its end, and its exit code.
    pub fn end(mut self) -> (String, Option<i32>) {
        let code = self.command.0.wait().unwrap().code();
        let mut rest = String::new();
        let _bytes = self.notices.read_to_string(&mut rest).unwrap();
        (rest, code)
    }
}
