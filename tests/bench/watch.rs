//! The whole program: CPU, memory and start time of `monitor watch` at 1 Hz.

use crate::load::{Sleepers, processes};
use crate::program::Program;
use crate::verdict::{Bar, line};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The program built with this bench.
pub const MONITOR: &str = env!("CARGO_BIN_EXE_monitor");
/// Time until the second reading is finished.
pub const WARM_UP: Duration = Duration::from_millis(2500);
/// Measured time after that: ten readings.
const MEASURED: Duration = Duration::from_secs(10);

/// Prints the costs of several output formats, with 1,000 and 5,000 processes.
pub fn run() {
    start();
    let [few, many] = [1000, 5000].map(|total| {
        let _sleepers = Sleepers::up_to(total);
        let bar = if total == 1000 { Bar::AtMost(0.2) } else { Bar::AtMost(1.0) };
        let table = watched("table of the top 50", &["--top", "50"], bar);
        let _ = watched("all rows as JSON", &["--format", "json"], Bar::None);
        let _ = watched("all rows as CSV", &["--format", "csv"], Bar::None);
        table / processes() as f64
    });
    line("CPU per process, 5,000 / 1,000 processes", many / few, "x", Bar::AtMost(1.1));
}

/// Measures the time from start to the first byte of the first sample.
fn start() {
    let mut taken: Vec<_> = (0..11)
        .map(|_| {
            let start = Instant::now();
            let mut command = Command::new(MONITOR);
            command.args(["sample", "--format", "json"]).stdout(Stdio::piped());
            let mut child = command.stdin(Stdio::null()).spawn().unwrap();
            let mut byte = [0];
            child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            let taken = start.elapsed().as_secs_f64() * 1e3;
            let _ = child.kill();
            let _ = child.wait();
            taken
        })
        .collect();
    taken.sort_by(f64::total_cmp);
    line("start to first sample, median of 11", taken[5], "ms", Bar::AtMost(150.0));
}

/// CPU in percent of a core, between the second reading and the last.
fn watched(what: &str, flags: &[&str], bar: Bar) -> f64 {
    let mut command = Command::new(MONITOR);
    let program = Program::start(command.args(["watch", "--every", "1s"]).args(flags)).unwrap();
    sleep(WARM_UP);
    let (before, start) = (program.cpu_ns(), Instant::now());
    sleep(MEASURED);
    let used = program.cpu_ns() - before;
    let percent = used / start.elapsed().as_nanos() as f64 * 100.0;
    let n = processes();
    line(&format!("watch, {n} processes, {what}"), percent, "% core", bar);
    if matches!(bar, Bar::AtMost(_)) && n < 2000 {
        memory(&program);
    }
    percent
}

fn memory(program: &Program) {
    line("its resident memory", program.bytes("VmRSS:") / 1e6, "MB", Bar::AtMost(16.0));
    line("its highest resident memory", program.bytes("VmHWM:") / 1e6, "MB", Bar::None);
    line("its BPF maps", map_bytes(program.pid()) / 1e6, "MB", Bar::None);
}

/// Memory of all BPF maps of a process, from its fdinfo.
fn map_bytes(pid: u32) -> f64 {
    let files = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let locked = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("memlock:"))?;
        text.contains("map_type:").then(|| line.split_whitespace().nth(1)?.parse::<f64>().ok())?
    };
    texts.filter_map(|text| locked(&text)).sum()
}
