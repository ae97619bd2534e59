//! What the probes of a call cost the rank: ends by trampolines and counts alone, beside bpftrace,
//! which counts and times the same calls of the same process.

use super::fixture::build;
use crate::measure::median;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const COMPILER: &str = "/usr/bin/mpicc.openmpi";
const STARTER: &str = "/usr/bin/mpirun.openmpi";
/// What the rank calls.
const FUNCTION: &str = "MPI_Comm_size";
/// Calls in a round, and rounds of each.
const CALLS: u32 = 20_000;
const ROUNDS: usize = 15;
/// A call that takes this number of nanoseconds is probed. Without probes it takes 5.
const PROBED_NS: f64 = 200.0;
/// Calls of a round that finds out, in which a fault of the first one does not count.
const TRIED: u32 = 2_000;
/// Time for bpftrace to set its probes.
const TIME: Duration = Duration::from_secs(60);

/// A rank that calls the function.
struct Caller {
    launcher: Child,
    output: BufReader<ChildStdout>,
    program: PathBuf,
}

/// Prints the costs.
pub fn run() {
    if [COMPILER, STARTER].iter().any(|it| !Path::new(it).exists()) {
        return; // As the others of Open MPI, whose lines say so.
    }
    if Command::new("bpftrace").arg("--version").output().is_err() {
        println!("  calls: bpftrace is not installed: nothing is compared with it");
        return;
    }
    let mut caller = Caller::start();
    let place = caller.function_path();
    let count = format!("uprobe:{place} {{ @calls = count(); }}");
    let times = format!(
        "uprobe:{place} {{ @since[tid] = nsecs; }} uretprobe:{place} /@since[tid]/ {{ \
         @calls[probe] = count(); @ns[probe] = sum(nsecs - @since[tid]); delete(@since[tid]); }}"
    );
    for (what, words, theirs, bar) in [
        ("by trampolines", "--trampoline", times, Bar::AtMost(1.1)),
        ("counts alone", "--counts", count, Bar::None),
    ] {
        let (mut ours_ns, mut theirs_ns) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let free_ns = caller.round(CALLS);
            ours_ns.push(caller.with_monitor(words) - free_ns);
            theirs_ns.push(caller.with_bpftrace(&theirs) - free_ns);
        }
        let (ours_ns, theirs_ns) = (median(ours_ns), median(theirs_ns));
        line(&format!("calls: CPU time of a call, {what}"), ours_ns, "ns", Bar::None);
        line("  the same by bpftrace", theirs_ns, "ns", Bar::None);
        line(&format!("  calls / bpftrace, {what}"), ours_ns / theirs_ns, "x", bar);
    }
}

impl Caller {
    fn start() -> Self {
        let program = build(&mut Command::new(COMPILER), "mpi_calls.c");
        let mut command = Command::new(STARTER);
        command.args(["--allow-run-as-root", "-n", "1"]).arg(&program);
        let mut launcher = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(launcher.stdout.take().unwrap());
        let mut caller = Self { launcher, output, program };
        assert_eq!(caller.line(), "ready");
        caller
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let _bytes = self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Nanoseconds of CPU time of a call.
    fn round(&mut self, calls: u32) -> f64 {
        writeln!(self.launcher.stdin.as_mut().unwrap(), "{calls}").unwrap();
        self.line().parse().unwrap()
    }

    /// The process of the rank: the child of the launcher.
    fn rank(&self) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", self.launcher.id());
        let children = std::fs::read_to_string(path).unwrap();
        children.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Where bpftrace finds the function.
    fn function_path(&self) -> String {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.rank())).unwrap();
        let library = maps.lines().find(|line| line.contains("/libmpi.so")).unwrap();
        format!("{}:{FUNCTION}", library.split_whitespace().last().unwrap())
    }

    fn with_monitor(&mut self, words: &str) -> f64 {
        let mut command = Command::new(MONITOR);
        command.args(["job", "calls", &self.launcher.id().to_string(), "--for", "1h"]);
        command.args(["--max-overhead", "none", "--format", "json", words]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut notice = String::new();
        let _bytes = BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut notice).unwrap();
        assert!(notice.contains("measuring"), "{notice}");
        let ns = self.round(CALLS);
        interrupt(&mut child);
        ns
    }

    fn with_bpftrace(&mut self, program: &str) -> f64 {
        let mut command = Command::new("bpftrace");
        command.args(["-p", &self.rank().to_string(), "-e", program]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while self.round(TRIED) < PROBED_NS {
            assert!(start.elapsed() < TIME, "bpftrace sets no probe");
        }
        let ns = self.round(CALLS);
        interrupt(&mut child);
        ns
    }
}

fn interrupt(child: &mut Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
    let mut text = String::new();
    let _bytes = child.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
    let _status = child.wait().unwrap();
}

impl Drop for Caller {
    fn drop(&mut self) {
        drop(self.launcher.stdin.take());
        let _ended = self.launcher.wait();
        let _removed = std::fs::remove_file(&self.program);
    }
}
