//! A program that calls code with known instructions, or stops itself, and says how long that took.

use monitor_sys::probed_code;
use nix::sys::signal::{Signal, raise};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

/// Environment variable that makes this program a target.
const VARIABLE: &str = "MONITOR_BENCH_REQUESTS";

/// What the target does again and again.
#[derive(Clone, Copy)]
pub enum Workload {
    /// Calls the function.
    Call,
    /// Sends itself a signal that is ignored by default, so only a tracer sees it.
    Raise,
}

impl Workload {
    fn word(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Raise => "raise",
        }
    }

    fn once(self) {
        match self {
            Self::Call => probed_code::call(),
            Self::Raise => raise(Signal::SIGWINCH).unwrap(),
        }
    }
}

/// A target that waits.
pub struct Target {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Address of the function that it calls.
    pub code: u64,
}

impl Target {
    /// Starts it.
    pub fn start() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(VARIABLE, "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let code = number(&mut output);
        Self { child, output, code }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it begin this many acts.
    pub fn begin(&mut self, act: Workload, times: usize) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{} {times}", act.word()).unwrap();
    }

    /// Microseconds that each of them took, when it has done all.
    pub fn end(&mut self, times: usize) -> f64 {
        let took: u64 = number(&mut self.output);
        took as f64 / 1e3 / times as f64
    }

    /// Both.
    pub fn run(&mut self, act: Workload, times: usize) -> f64 {
        self.begin(act, times);
        self.end(times)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// If this program was started as a target: prints the address of the function; for each line does
/// what it says, and prints the nanoseconds that this took.
pub fn serve_as_target() -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    println!("{}", probed_code::call as *const () as u64);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (word, times) = line.split_once(' ').unwrap();
        let act =
            [Workload::Call, Workload::Raise].into_iter().find(|it| it.word() == word).unwrap();
        let times: usize = times.parse().unwrap();
        let start = Instant::now();
        for _ in 0..times {
            act.once();
        }
        println!("{}", start.elapsed().as_nanos());
    }
    true
}

fn number(output: &mut BufReader<ChildStdout>) -> u64 {
    let mut text = String::new();
    let _ = output.read_line(&mut text).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("{text} is no number"))
}
