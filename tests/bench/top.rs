//! The screen: its time to open, and its cost at 1 Hz beside comparable programs, each on its own
//! terminal, with 1,000 processes.
//!
//! The programs show different things: compare with care. Programs that are not installed are
//! listed.

use crate::load::{Sleepers, processes};
use crate::measure::median;
use crate::program::Program;
use crate::verdict::{Bar, line};
use crate::watch::{MONITOR, WARM_UP};
use std::io::Result;
use std::process::Command;
use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Measured time.
const MEASURED: Duration = Duration::from_secs(10);
/// Number of starts.
const OPENED: usize = 11;
/// Timeout for the first numbers.
const FIRST_NUMBERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Text in the first line that appears with the first reading.
const NUMBERS: &[u8] = b"probes ok";

/// A program to measure.
struct Peer {
    name: &'static str,
    /// The command that installs it.
    package: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const OURS: &[Peer] = &[
    ours("monitor top", &["top", "--local"]),
    ours("monitor top --tree", &["top", "--local", "--tree"]),
    ours("monitor top --backend procfs", &["top", "--backend", "procfs"]),
];

const OTHERS: &[Peer] = &[
    Peer {
        name: "top of procps",
        package: "apt-get install procps",
        program: "top",
        arguments: &["-d", "1"],
    },
    Peer {
        name: "htop",
        package: "apt-get install htop",
        program: "htop",
        arguments: &["--delay=10"],
    },
    Peer {
        name: "btop",
        package: "apt-get install btop",
        program: "btop",
        // Its interval is in its configuration, which is written below.
        arguments: &["--utf-force"],
    },
    Peer { name: "atop", package: "apt-get install atop", program: "atop", arguments: &["1"] },
    Peer {
        name: "bottom",
        package: "cargo install bottom --locked --root target/peers",
        program: "btm",
        arguments: &["--rate", "1s"],
    },
];

const fn ours(name: &'static str, arguments: &'static [&'static str]) -> Peer {
    Peer { name, package: "monitor", program: MONITOR, arguments }
}

/// Folder with the configuration of btop.
const HOME: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/top");

/// Measures the start, then the cost of all programs.
pub fn run() {
    let _sleepers = Sleepers::up_to(1000);
    opening();
    configure();
    let n = processes();
    let own: Vec<f64> = OURS.iter().filter_map(|peer| measured(peer, n)).collect();
    let others: Vec<f64> = OTHERS.iter().filter_map(|peer| measured(peer, n)).collect();
    let Some(first) = own.first() else { return };
    line("monitor top, share of a processor", *first, "%", Bar::AtMost(1.0));
    if let Some(cheapest) = others.iter().copied().reduce(f64::min) {
        line("ratio to the cheapest of the others", first / cheapest, "x", Bar::AtMost(1.0));
    }
}

/// Measures the time from start to the first frame, and to the first numbers.
fn opening() {
    let opened: Vec<_> = (0..OPENED).filter_map(|_| opened().ok()).collect();
    if opened.is_empty() {
        return println!("  no numbers within {FIRST_NUMBERS_TIMEOUT:?}: not measured");
    }
    let median_of = |index: usize| median(opened.iter().map(|it: &[f64; 2]| it[index]).collect());
    line("start to first frame, median of 11", median_of(0), "ms", Bar::None);
    line("start to first numbers, median of 11", median_of(1), "ms", Bar::AtMost(200.0));
}

fn opened() -> Result<[f64; 2]> {
    let start = Instant::now();
    let (sender, receiver) = mpsc::channel();
    let mut drawn = Vec::new();
    let on_output = move |bytes: &[u8]| {
        drawn.extend_from_slice(bytes);
        let seen = drawn.windows(NUMBERS.len()).any(|part| part == NUMBERS);
        // Fails after the measurement.
        let _ = sender.send((start.elapsed(), seen));
    };
    let _program = Program::on_terminal(&mut command(&OURS[0]), on_output)?;
    let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    let (first, mut last) = receiver.recv_timeout(FIRST_NUMBERS_TIMEOUT).map_err(late)?;
    let first_ms = first.as_secs_f64() * 1e3;
    let mut at = first;
    while !last {
        (at, last) = receiver.recv_timeout(FIRST_NUMBERS_TIMEOUT).map_err(late)?;
    }
    Ok([first_ms, at.as_secs_f64() * 1e3])
}

fn command(peer: &Peer) -> Command {
    // In a new session, so that it is not stopped for writing to a foreign terminal.
    let mut command = Command::new("setsid");
    command.args(["--ctty", peer.program]).args(peer.arguments);
    command.env("XDG_CONFIG_HOME", HOME).env("HOME", HOME);
    // Process accounting is a setting of the whole node: do not change it.
    command.env("ATOPACCT", "");
    command
}

fn configure() {
    let folder = format!("{HOME}/btop");
    let text = "update_ms = 1000\nproc_sorting = \"cpu lazy\"\n";
    let _ = std::fs::create_dir_all(&folder);
    let _ = std::fs::write(format!("{folder}/btop.conf"), text);
}

/// Measures a program and prints its costs; returns the CPU in percent.
fn measured(peer: &Peer, n: usize) -> Option<f64> {
    if !is_installed(peer.program) {
        println!("  {:<58} not measured: {}", peer.name, peer.package);
        return None;
    }
    match used(peer) {
        Ok((percent, resident)) => {
            let what = format!("{}, {n} processes", peer.name);
            println!("  {what:<58} {percent:>9.3} % core  {resident:>6.1} MB");
            Some(percent)
        }
        Err(error) => {
            println!("  {:<58} not measured: {error}", peer.name);
            None
        }
    }
}

/// CPU in percent of a core, and resident megabytes.
fn used(peer: &Peer) -> Result<(f64, f64)> {
    let mut program = Program::on_terminal(&mut command(peer), |_| {})?;
    sleep(WARM_UP);
    if !program.lives() {
        return Err(std::io::Error::other("it exited by itself"));
    }
    let (before, start) = (program.cpu_ns(), Instant::now());
    sleep(MEASURED);
    let used = program.cpu_ns() - before;
    let percent = used / start.elapsed().as_nanos() as f64 * 100.0;
    Ok((percent, program.bytes("VmRSS:") / 1e6))
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    program.contains('/') || std::env::split_paths(&path).any(|it| it.join(program).exists())
}
