//! Cases of jobs, as text, with each runtime of MPI: `tests/fixture/job/case` has the cases and
//! documents their lines; `runtime.rs` has the runtimes. Each pair is a test.

mod started;
mod text;

use super::gate::{processes, ranks};
use super::runtime::{CaseRuntime, RUNTIMES, Start};
use super::slurm_node::SlurmNode;
use super::{job_of, kill, state};
use crate::deadline::until;
use crate::root::privilege::granted;
use crate::root::workload::Guarded;
use crate::served::{Folder, monitor};
use monitor_model::id::Pid;
use serde_json::Value;
use started::StartedJob;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use text::{CaseLine, Names, filled, matches, words};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixture/job/case");
/// Ranks of a job.
const N: usize = 2;

/// A test for each case with each runtime.
macro_rules! cases {
    ($($runtime:ident)*) => { $(
        mod $runtime {
            cases! { $runtime: launched_exec launched_init launch_is_killed attached_running
                attached_held directives rank_fails rank_is_killed launcher_is_killed
                tool_is_killed }
        }
    )* };
    ($runtime:ident: $($case:ident)*) => {
        $( #[test]
        fn $case() {
            super::run(stringify!($runtime), stringify!($case));
        } )*
        pub const CASES: &[&str] = &[$(stringify!($case)),*];
    };
}

cases! { openmpi4 openmpi5 mpich4 mpich5 intel native4 native5 slurm }

#[test]
fn each_case_runs_with_each_runtime() {
    let names = std::fs::read_dir(FOLDER)
        .unwrap()
        .flatten()
        .filter_map(|it| it.file_name().to_str().unwrap().strip_suffix(".txt").map(str::to_owned));
    let mut names: Vec<String> = names.collect();
    names.sort();
    let mut listed = openmpi4::CASES.to_vec();
    listed.sort_unstable();
    assert_eq!(names, listed);
    let all = [
        openmpi4::CASES,
        openmpi5::CASES,
        mpich4::CASES,
        mpich5::CASES,
        intel::CASES,
        native4::CASES,
        native5::CASES,
        slurm::CASES,
    ];
    assert_eq!(all.len(), RUNTIMES.len());
}

/// A case that runs.
struct Case {
    runtime: &'static CaseRuntime,
    program: PathBuf,
    folder: Folder,
    names: Names,
    job: Option<StartedJob>,
    tool: Option<Guarded>,
    /// Those that were killed. The end of such a value would kill their children, too.
    killed: Vec<Guarded>,
    /// What the last command has printed and not been compared yet, and its exit code.
    printed: Vec<String>,
    said: Vec<String>,
    code: i32,
}

fn run(runtime: &str, name: &str) {
    let (runtime, test) = (CaseRuntime::named(runtime), format!("{runtime}::{name}"));
    // Without privilege no test loads BPF programs, which would see the processes of this one.
    let _turn = rustix::process::geteuid().is_root() && granted(&test);
    let Some(program) = runtime.built(&test) else { return };
    let Some(node) = runtime.node(&test) else { return };
    let text = std::fs::read_to_string(format!("{FOLDER}/{name}.txt")).unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let known = [
        ("runtime", runtime.runtime),
        ("title", runtime.title),
        ("host", host.trim()),
        ("program", program.to_str().unwrap()),
    ];
    let names = known.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut case = Case {
        runtime,
        program,
        folder: Folder::new(),
        names,
        job: None,
        tool: None,
        killed: Vec::new(),
        printed: Vec::new(),
        said: Vec::new(),
        code: 0,
    };
    let lines = text::lines(&text, runtime.name);
    for at in 0..lines.len() {
        let line = &lines[at];
        if line.verb == "end" {
            break;
        }
        let place = CurrentLine(format!("{name}.txt:{}: {} {}", line.number, line.verb, line.rest));
        case.run(line, node.as_ref());
        // What a command prints is listed before the next line of another kind.
        let next = lines.get(at + 1).map_or("end", |it| it.verb);
        if !["<", "<*", "<?", "!", "code"].contains(&next) {
            case.check_command();
        }
        if !(line.verb == "out" && next == "out") {
            case.job.iter_mut().for_each(StartedJob::check_outputs);
        }
        drop(place);
    }
}

/// The line of a case, printed if it fails.
struct CurrentLine(String);

impl Drop for CurrentLine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.0);
        }
    }
}

impl Case {
    fn run(&mut self, line: &CaseLine, node: Option<&SlurmNode>) {
        let rest = line.rest;
        match line.verb {
            "start" => self.start(rest, node),
            "listed" => self.find_job(),
            ">" => self.command(rest),
            "<" => {
                let line = self.printed.remove(0);
                assert!(matches(rest, &line, &mut self.names), "{line:?}");
            }
            "<*" | "<?" => self.find_line(rest, line.verb == "<*"),
            "!" => {
                let line = self.said.remove(0);
                assert!(matches(rest, &line, &mut self.names), "{line:?}");
            }
            "code" => {
                assert_eq!(self.code.to_string(), rest);
                self.code = 0;
            }
            "out" => self.job.as_mut().unwrap().wants.push(filled(rest, &self.names)),
            "notice" => self.job.as_mut().unwrap().notice(rest, &mut self.names),
            "tool" if rest.starts_with("ends ") => {
                let mut tool = self.tool.take().unwrap();
                let status = until(|| tool.0.try_wait().unwrap());
                assert_eq!(format!("ends {}", status.code().unwrap()), rest);
            }
            "tool" => {
                let mut command = self.monitor(rest);
                self.tool = Some(Guarded::run(command.stderr(Stdio::null())));
            }
            "tool<" => {
                let line = self.tool.as_mut().unwrap().line();
                assert!(matches(rest, &line, &mut self.names), "{line:?}");
            }
            "state" => self.wait_for_state(rest),
            "kill" => self.kill(rest),
            "open" => std::fs::write(self.gate(), "").unwrap(),
            "ends" => {
                let code = self.job.as_mut().unwrap().ends();
                assert!(rest.split('|').any(|it| it == code.to_string()), "{code}");
            }
            "gone" => self.wait_until_gone(),
            other => panic!("{other} is no line of a case"),
        }
    }

    fn gate(&self) -> String {
        self.folder.join("gate").display().to_string()
    }

    fn set_environment(&self, command: &mut Command) {
        self.runtime.set_environment(command);
        command.env("TMPDIR", self.folder.join(""));
    }

    /// A command of the program.
    fn monitor(&self, rest: &str) -> Command {
        let mut command = monitor();
        command.args(words(rest).iter().map(|it| filled(it, &self.names)));
        self.set_environment(&mut command);
        command
    }

    fn start(&mut self, rest: &str, node: Option<&SlurmNode>) {
        let mut options = words(rest);
        let what = options.pop().unwrap();
        let program = [self.program.display().to_string(), self.gate(), what];
        let launcher = self.runtime.launcher(N);
        let is_native = self.runtime.start == Start::Native;
        let mut command = if is_native || !options.is_empty() {
            let mut command = monitor();
            command.args(["job", "launch"]).args(&options);
            command.args(is_native.then(|| ["-n".to_owned(), N.to_string()]).iter().flatten());
            command.arg("--").args(&launcher);
            command
        } else {
            let mut command = Command::new(&launcher[0]);
            command.args(&launcher[1..]);
            command
        };
        self.set_environment(&mut command);
        if let Some(node) = node {
            node.set_environment(&mut command);
        }
        self.job = Some(StartedJob::new(command.args(program)));
    }

    /// Waits until the ranks are one job.
    fn find_job(&mut self) {
        let gate = self.gate();
        let started = self.job.as_mut().unwrap();
        let job = until(|| {
            started.check_that_it_runs();
            let job = job_of(*ranks(&gate).first()?)?;
            (job["ranks"].as_array()?.len() == N).then_some(job)
        });
        let text = |value: &Value| match value {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let known = [("job", &job["id"]), ("launcher", &job["launcher_pid"])];
        let known = known.map(|(name, value)| (name.to_owned(), text(value)));
        let ranks = job["ranks"].as_array().unwrap();
        let pids = ranks.iter().map(|it| (format!("pid{}", it["rank"]), text(&it["pid"])));
        for (name, value) in known.into_iter().chain(pids) {
            let before = self.names.insert(name, value.clone());
            assert!(before.is_none_or(|it| it == value));
        }
    }

    fn command(&mut self, rest: &str) {
        let got = self.monitor(rest).stdin(Stdio::null()).output().unwrap();
        let lines = |bytes| String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect();
        self.code = got.status.code().unwrap();
        (self.printed, self.said) = (lines(got.stdout), lines(got.stderr));
    }

    /// Finds a line of the last command; all have to be found, or the others are dropped.
    fn find_line(&mut self, pattern: &str, all: bool) {
        let found = self.printed.iter().position(|it| matches(pattern, it, &mut self.names));
        let Some(found) = found else { panic!("{:?}", self.printed) };
        if all {
            let _line = self.printed.remove(found);
        } else {
            // Of other jobs.
            self.printed.clear();
            self.said.clear();
        }
    }

    /// Everything that the last command has printed was wanted.
    fn check_command(&self) {
        let left = (&self.printed, &self.said, self.code);
        assert_eq!(left, (&vec![], &vec![], 0));
    }

    fn pids(&self) -> Vec<Pid> {
        let pid = |at| Pid(self.names[&format!("pid{at}")].parse().unwrap());
        (0..N).map(pid).collect()
    }

    fn wait_for_state(&self, wanted: &str) {
        let is_so = |pid: &Pid| {
            let process = procfs::process::Process::new(pid.0.cast_signed()).unwrap();
            wanted.contains(state(*pid)) && process.status().unwrap().tracerpid == 0
        };
        until(|| self.pids().iter().all(is_so).then_some(()));
    }

    fn kill(&mut self, part: &str) {
        match part {
            "tool" => {
                let mut tool = self.tool.take().unwrap();
                tool.0.kill().unwrap();
                let _status = tool.0.wait().unwrap();
                self.killed.push(tool);
            }
            "command" => self.job.as_mut().unwrap().kill(),
            "launcher" if self.runtime.start == Start::Slurm => self.job.as_mut().unwrap().kill(),
            "launcher" => kill(Pid(self.names["launcher"].parse().unwrap())),
            rank => kill(Pid(self.names[&rank.replace("rank", "pid")].parse().unwrap())),
        }
    }

    fn wait_until_gone(&self) {
        // All of them have the path of the gate in their command line, until they end.
        until(|| processes(&self.gate()).is_empty().then_some(()));
        until(|| {
            let files = std::fs::read_dir(self.folder.path()).unwrap().flatten();
            let names = files.map(|it| it.file_name().to_string_lossy().into_owned());
            names.filter(|it| it.starts_with("monitor")).count().eq(&0).then_some(())
        });
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            print_processes();
        }
        // What a failed case has left; a launcher that is killed may leave its ranks.
        for pid in processes(&self.gate()) {
            kill(Pid(pid.cast_unsigned()));
        }
    }
}

/// Prints all processes, with what each waits for: what a failed case has waited for, too.
fn print_processes() {
    let columns = "pid,ppid,pgid,stat,wchan:24,args";
    let listed = Command::new("ps").args(["-eo", columns]).output();
    println!("{}", String::from_utf8_lossy(&listed.map(|it| it.stdout).unwrap_or_default()));
}
