//! The whole program at 1 Hz: its CPU, memory and start, as `monitor watch` is used.

use crate::load::{Sleepers, processes};
use crate::verdict::{Bar, line};
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Readings that are measured, after the first two.
const READINGS: u32 = 10;

/// Forms of the output, 1,000 and 5,000 processes.
pub fn run() {
    start();
    for total in [1000, 5000] {
        let _sleepers = Sleepers::up_to(total);
        let bar = if total == 1000 { Bar::AtMost(0.2) } else { Bar::AtMost(1.0) };
        watched("table of the top 50", &["--top", "50"], bar);
        watched("all rows as JSON", &["--format", "json"], Bar::None);
        watched("all rows as CSV", &["--format", "csv"], Bar::None);
    }
}

/// From the start of the program to the first byte of its first sample.
fn start() {
    let mut taken: Vec<_> = (0..11)
        .map(|_| {
            let start = Instant::now();
            let mut child = monitor(&["sample", "--format", "json"]);
            let mut byte = [0];
            child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            let taken = start.elapsed().as_secs_f64() * 1e3;
            end(child);
            taken
        })
        .collect();
    taken.sort_by(f64::total_cmp);
    line("start to first sample, median of 11", taken[5], "ms", Bar::AtMost(150.0));
}

/// Hundredths of a core between the second reading and the last.
fn watched(what: &str, flags: &[&str], bar: Bar) {
    let mut child = monitor(&[&["watch", "--every", "1s"], flags].concat());
    let mut output = child.stdout.take().unwrap();
    // Somebody must read, or the pipe fills and the program stands still.
    let reader = std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    std::thread::sleep(Duration::from_millis(2500));
    let (before, start) = (cpu_ns(child.id()), Instant::now());
    std::thread::sleep(Duration::from_secs(READINGS.into()));
    let used = cpu_ns(child.id()) - before;
    let percent = used / start.elapsed().as_nanos() as f64 * 100.0;
    let n = processes();
    line(&format!("watch, {n} processes, {what}"), percent, "% core", bar);
    if matches!(bar, Bar::AtMost(_)) && n < 2000 {
        memory(child.id());
    }
    end(child);
    let _ = reader.join();
}

fn memory(pid: u32) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let megabytes = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0 / 1e6
    };
    line("its resident memory", megabytes("VmRSS"), "MB", Bar::AtMost(16.0));
    line("its highest resident memory", megabytes("VmHWM"), "MB", Bar::None);
    line("its BPF maps", map_bytes(pid) / 1e6, "MB", Bar::None);
}

/// What the kernel says of every map that the process holds.
fn map_bytes(pid: u32) -> f64 {
    let files = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap().flatten();
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let locked = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("memlock:"))?;
        text.contains("map_type:").then(|| line.split_whitespace().nth(1)?.parse::<f64>().ok())?
    };
    texts.filter_map(|text| locked(&text)).sum()
}

fn monitor(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_monitor"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// CPU nanoseconds of all threads.
fn cpu_ns(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let ran = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    threads.filter_map(ran).sum()
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
