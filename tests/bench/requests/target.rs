//! A program that calls code with known instructions, and says how long that took.

use monitor_sys::probed_code;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

/// Environment variable that makes this program a target: the number of calls.
const VARIABLE: &str = "MONITOR_BENCH_REQUESTS";

/// A target that waits.
pub struct Target {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Address of the function that it calls.
    pub code: u64,
    calls: usize,
}

impl Target {
    /// Starts it.
    pub fn start(calls: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(VARIABLE, calls.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let code = number(&mut output);
        Self { child, output, code, calls }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has it make its calls; returns microseconds for each.
    pub fn run(&mut self) -> f64 {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
        let took: u64 = number(&mut self.output);
        took as f64 / 1e3 / self.calls as f64
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// If this program was started as a target: prints the address of the function, waits for a line,
/// calls it, and prints the nanoseconds that all calls took.
pub fn serve_as_target() -> bool {
    let Some(calls) = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<usize>().ok())
    else {
        return false;
    };
    println!("{}", probed_code::call as *const () as u64);
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lock().read_line(&mut String::new());
    let start = Instant::now();
    for _ in 0..calls {
        probed_code::call();
    }
    println!("{}", start.elapsed().as_nanos());
    std::io::stdout().flush().unwrap();
    true
}

fn number(output: &mut BufReader<ChildStdout>) -> u64 {
    let mut text = String::new();
    let _ = output.read_line(&mut text).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("{text} is no number"))
}
