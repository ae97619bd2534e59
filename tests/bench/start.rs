//! How long a command takes until it has printed something, without a daemon: a sample of one
//! process, and the first event of `monitor when`, beside `bpftrace` with the same question.
//! On an idle machine, and beside a busy loop for each processor.

use crate::load::beside;
use crate::measure::{median, n_processors};
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use monitor_model::Pid;
use monitor_sys::wait::wait;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Runs of each; the median counts.
const ROUNDS: usize = 9;
/// A program that calls it once at least, and the function.
const PROGRAM: [&str; 2] = ["/bin/cat", "/etc/hostname"];
const FUNCTION: &str = "open";

pub fn run() {
    let pid = std::process::id().to_string();
    let sample = || cpu_of(Command::new(MONITOR).args(["sample", "--local", "--pid", &pid]));
    line("CPU of sample --local --pid", of_rounds(sample), "s", Bar::AtMost(0.1));
    let libc = libc();
    let bpftrace = |libc: &str| first_event(&mut bpftrace(libc));
    let has_bpftrace = libc.as_deref().and_then(bpftrace).is_some();
    if !has_bpftrace {
        println!("  bpftrace does not run here: nothing is compared with it");
    }
    for (when, n_busy, bar) in [("idle", 0, Bar::AtMost(0.3)), ("busy", n_processors(), Bar::None)]
    {
        let (mut own, mut theirs) = (Vec::new(), Vec::new());
        beside(n_busy, || {
            for _ in 0..ROUNDS {
                own.extend(first_event(&mut monitor_when()));
                if let Some(libc) = libc.as_deref().filter(|_| has_bpftrace) {
                    theirs.extend(bpftrace(libc));
                }
            }
        });
        if own.len() < ROUNDS {
            println!("  {} of {ROUNDS} runs of when printed no event", ROUNDS - own.len());
        }
        if own.is_empty() {
            continue;
        }
        let own = median(own);
        line(&format!("first event of when, {when}"), own, "s", bar);
        if !theirs.is_empty() {
            let theirs = median(theirs);
            line(&format!("first event of bpftrace, {when}"), theirs, "s", Bar::None);
            line(&format!("when / bpftrace, {when}"), own / theirs, "x", Bar::AtMost(1.5));
        }
    }
}

fn monitor_when() -> Command {
    let mut command = Command::new(MONITOR);
    command.args(["when", &format!("call {FUNCTION}"), "print", "--"]).args(PROGRAM);
    command
}

/// The same, for calls of the program alone.
fn bpftrace(libc: &str) -> Command {
    let script = format!("uprobe:{libc}:{FUNCTION} /pid == cpid/ {{ printf(\"{FUNCTION}\\n\"); }}");
    let mut command = Command::new("bpftrace");
    command.args(["-B", "line", "-e", &script, "-c", &PROGRAM.join(" ")]);
    command
}

/// The C library of this process.
fn libc() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(is_libc));
    path.map(str::to_owned)
}

fn is_libc(path: &&str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with("libc.so"))
}

/// The median of all rounds.
fn of_rounds(round: impl FnMut() -> f64) -> f64 {
    median(std::iter::repeat_with(round).take(ROUNDS).collect())
}

/// Seconds of processor time of a command.
#[allow(clippy::zombie_processes, reason = "`wait` reaps it, with its usage")]
fn cpu_of(command: &mut Command) -> f64 {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (status, usage) = wait(Pid(child.id())).unwrap();
    assert!(status.success(), "{status}");
    usage.cpu.0 as f64 / 1e9
}

/// Seconds from the start of a command until it prints the function; none if it ends before that.
fn first_event(command: &mut Command) -> Option<f64> {
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut first = None;
    for text in BufReader::new(child.stdout.take()?).lines() {
        if first.is_none() && text.is_ok_and(|text| text.contains(FUNCTION)) {
            first = Some(started.elapsed().as_secs_f64());
        }
    }
    let _ = child.wait();
    first
}
