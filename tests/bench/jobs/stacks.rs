//! Merged call stacks: how long ranks are stopped, against gdb and eu-stack, which stop a process
//! for nearly as long as they run.

use super::rank::{Job, RankWork};
use crate::measure::{median, n_processors};
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use monitor_model::Identity;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Instant;

const SLEEPING: usize = 64;
const ROUNDS: usize = 20;
/// gdb takes up to a second for a process: this number is measured, and the sum is of all ranks.
const SAMPLED: usize = 8;

/// Prints both cases.
pub fn run() {
    let job = Job::start(SLEEPING, RankWork::Sleep);
    let looks = looks(&job);
    line("stacks: 64 sleeping ranks, whole command", looks.wall_ms, "ms", Bar::AtMost(1000.0));
    line("  longest stop of a thread, p99 of 20 looks", looks.longest_ms, "ms", Bar::AtMost(5.0));
    line("  sum of all stops, median", looks.total_ms, "ms", Bar::None);
    others(&job.processes(), looks.total_ms);
    drop(job);
    let job = Job::start(2 * n_processors(), RankWork::Spin);
    let looks = self::looks(&job);
    line("stacks: two spinning ranks a core, longest stop", looks.longest_ms, "ms", Bar::None);
    let text = "  CPU while a thread is stopped, p99 of 20 looks";
    line(text, looks.stopped_cpu_ms, "ms", Bar::AtMost(5.0));
    line("  CPU of the command, for all of it", looks.cpu_ms, "ms", Bar::None);
    line("  sum of all stops, median", looks.total_ms, "ms", Bar::None);
    others(&job.processes(), looks.total_ms);
}

struct Looks {
    wall_ms: f64,
    cpu_ms: f64,
    longest_ms: f64,
    stopped_cpu_ms: f64,
    total_ms: f64,
}

fn looks(job: &Job) -> Looks {
    let (mut walls, mut totals, mut longest, mut stopped_cpu) = (vec![], vec![], vec![], vec![]);
    let cpu = children_cpu_ms();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut command = Command::new(MONITOR);
        command.args(["job", "stacks", &job.name(), "--format", "json"]);
        let output = command.output().unwrap();
        walls.push(start.elapsed().as_secs_f64() * 1e3);
        let stacks: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ms = |key: &str| stacks[key].as_f64().unwrap() / 1e6;
        longest.push(ms("max_stopped_ns"));
        stopped_cpu.push(ms("max_stopped_cpu_ns"));
        totals.push(ms("total_stopped_ns"));
    }
    for all in [&mut longest, &mut stopped_cpu] {
        all.sort_by(f64::total_cmp);
    }
    Looks {
        wall_ms: median(walls),
        cpu_ms: (children_cpu_ms() - cpu) / ROUNDS as f64,
        longest_ms: longest[ROUNDS - 1],
        stopped_cpu_ms: stopped_cpu[ROUNDS - 1],
        total_ms: median(totals),
    }
}

fn children_cpu_ms() -> f64 {
    let ticks = procfs::process::Process::myself().unwrap().stat().unwrap();
    let ticks = ticks.cutime + ticks.cstime;
    ticks as f64 * 1e3 / procfs::ticks_per_second() as f64
}

/// The same by other tools, for as many of the ranks as take seconds, scaled to all.
fn others(all: &[Identity], ours_ms: f64) {
    let sampled = &all[..SAMPLED.min(all.len())];
    let times = all.len() as f64 / sampled.len() as f64;
    for (name, words, least) in
        [("eu-stack", &["-p"][..], 3.0), ("gdb", &["-nx", "-batch", "-ex", "bt", "-p"], 20.0)]
    {
        let start = Instant::now();
        for process in sampled {
            let mut command = Command::new(name);
            command.args(words).arg(process.pid.0.to_string());
            let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if silent.status().is_err() {
                println!("  {name} is not here");
                return;
            }
        }
        let ms = start.elapsed().as_secs_f64() * 1e3 * times;
        line(&format!("  {name}, all ranks one after the other"), ms, "ms", Bar::None);
        line(&format!("  sum of our stops by {name}"), ours_ms / ms, "x", Bar::AtMost(1.0 / least));
    }
}
