//! The profile of MPI calls: what its probes cost ranks that exchange small messages, and how far
//! its times are from those of a profiler that is linked into the program.

use super::fixture::build;
use crate::measure::median;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const COMPILER: &str = "/usr/bin/mpicc.openmpi";
const STARTER: &str = "/usr/bin/mpirun.openmpi";
const RANKS: u64 = 8;
/// Messages in each direction in a round, and pairs of rounds.
const MESSAGES: u64 = 2000;
const PAIRS: usize = 20;

/// Ranks in pairs that exchange messages; ended on drop.
struct PingPong {
    launcher: Child,
    output: BufReader<ChildStdout>,
    program: PathBuf,
}

/// What a round took.
struct Round {
    seconds: f64,
    /// Time of all ranks in these functions, by the profiler in the program.
    in_mpi_ns: u64,
    /// Time of all ranks in calls that do nothing, one for each message that a rank has received.
    in_empty_ns: u64,
}

/// What ranks do in a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Messages {
    Alone,
    WithEmptyCalls,
}

/// Prints the costs, and the difference.
pub fn run() {
    if [COMPILER, STARTER].iter().any(|it| !Path::new(it).exists()) {
        println!("  calls: needs Open MPI (apt install openmpi-bin libopenmpi-dev)");
        return;
    }
    let mut ranks = PingPong::start();
    let _first = ranks.round(Messages::Alone);
    for (words, bar) in [(&["--counts"][..], Bar::AtMost(1.05)), (&[], Bar::None)] {
        let mut ratios = Vec::new();
        for _ in 0..PAIRS {
            let without = ranks.round(Messages::Alone);
            let (with, profile) = ranks.profiled_round(Messages::Alone, words);
            for name in ["MPI_Send", "MPI_Recv"] {
                assert_eq!(function(&profile, name)["calls"], RANKS * MESSAGES, "{profile:#}");
            }
            ratios.push(with.seconds / without.seconds);
        }
        let what = if words.is_empty() { "counts and times" } else { "counts" };
        line(&format!("calls: {RANKS} ranks of ping-pong, {what}"), median(ratios), "x", bar);
    }
    difference(&mut ranks);
}

/// How far the times are from those of the profiler in the program, which measures the probes, too:
/// the ranks calibrate them with calls that do nothing, between the others.
fn difference(ranks: &mut PingPong) {
    let (mut each_ns, mut calibrated, mut stated, mut errors) = Default::default();
    let mut shares = Vec::new();
    let (messages, calls) = ((RANKS * MESSAGES) as f64, (2 * RANKS * MESSAGES) as f64);
    for _ in 0..PAIRS {
        let without = ranks.round(Messages::WithEmptyCalls);
        let (with, profile) = ranks.profiled_round(Messages::WithEmptyCalls, &[]);
        let times = ["MPI_Send", "MPI_Recv"].map(|it| function(&profile, it)["time_ns"].as_f64());
        let ours: f64 = times.iter().map(|it| it.unwrap()).sum();
        let theirs = with.in_mpi_ns as f64;
        let pair = (with.in_empty_ns as f64 - without.in_empty_ns as f64) / messages;
        let [price, error] =
            ["price_per_call_ns", "error_per_call_ns"].map(|key| profile[key].as_f64().unwrap());
        shares.push((theirs - calls * pair - ours).abs() / (0.02 * theirs + calls * error));
        let all: [(&mut Vec<f64>, f64); 4] = [
            (&mut each_ns, (theirs - ours) / calls),
            (&mut calibrated, pair),
            (&mut stated, price),
            (&mut errors, error),
        ];
        all.into_iter().for_each(|(values, value)| values.push(value));
    }
    for (text, values) in [
        ("a call, below that of a profiler in the program", each_ns),
        ("the probes of a call, as ranks calibrate them", calibrated),
        ("the same, as the command states it", stated),
        ("error of a call, as stated", errors),
    ] {
        line(&format!("  {text}"), median(values), "ns", Bar::None);
    }
    let text = "  the difference without the probes, by 2 % and the stated errors";
    line(text, median(shares), "x", Bar::AtMost(1.0));
}

fn function<'p>(profile: &'p Value, name: &str) -> &'p Value {
    let all = profile["functions"].as_array().unwrap();
    all.iter().find(|it| it["function"] == name).unwrap()
}

impl PingPong {
    fn start() -> Self {
        let program = build(&mut Command::new(COMPILER), "ping_pong.c");
        let mut command = Command::new(STARTER);
        command.args(["--allow-run-as-root", "--oversubscribe", "-n", &RANKS.to_string()]);
        command.args(["--mca", "mpi_yield_when_idle", "1"]).arg(&program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut launcher = command.spawn().unwrap();
        let output = BufReader::new(launcher.stdout.take().unwrap());
        let mut ranks = Self { launcher, output, program };
        assert_eq!(ranks.line(), "ready");
        ranks
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let _bytes = self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn round(&mut self, messages: Messages) -> Round {
        let words = if messages == Messages::WithEmptyCalls { " empty" } else { "" };
        writeln!(self.launcher.stdin.as_mut().unwrap(), "{MESSAGES}{words}").unwrap();
        let line = self.line();
        let mut values = line.split(' ').map(|it| it.parse::<f64>().unwrap());
        let mut next = || values.next().unwrap();
        Round { seconds: next(), in_mpi_ns: next() as u64, in_empty_ns: next() as u64 }
    }

    /// A round with the profile of it.
    fn profiled_round(&mut self, messages: Messages, words: &[&str]) -> (Round, Value) {
        let mut command = Command::new(MONITOR);
        command.args(["job", "calls", &self.launcher.id().to_string(), "--for", "1h"]);
        command.args(["--format", "json", "--max-overhead", "none"]).args(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut notice = String::new();
        let _bytes = BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut notice).unwrap();
        assert!(notice.contains("measuring"), "{notice}");
        let round = self.round(messages);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let mut text = String::new();
        let _bytes = child.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
        let _status = child.wait().unwrap();
        (round, serde_json::from_str(&text).unwrap())
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        drop(self.launcher.stdin.take());
        let _ended = self.launcher.wait();
        let _removed = std::fs::remove_file(&self.program);
    }
}
