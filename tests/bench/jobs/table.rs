//! The process table of a job, against a bare read of the environments of its ranks.

use super::rank::{Job, RankWork};
use crate::measure::median;
use crate::requests::Session;
use crate::service::Daemon;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use std::process::Command;
use std::time::Instant;

const RANKS: usize = 64;
const ROUNDS: usize = 100;

/// Prints both, in alternating rounds.
pub fn run() {
    let job = Job::start(RANKS, RankWork::Sleep);
    let pids: Vec<u32> = job.processes().iter().map(|it| it.pid.0).collect();
    let daemon = Daemon::start();
    let mut session = Session::connect(&daemon);
    let request = format!("job_info(\"{}\")", job.name());
    let (mut bare, mut served, mut command) = (vec![], vec![], vec![]);
    let own = daemon.cpu_ns();
    for round in 0..ROUNDS {
        bare.push(timed(|| {
            for pid in &pids {
                let _ = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
            }
        }));
        served.push(timed(|| session.does(u32::try_from(round).unwrap() + 1, &request)));
        if round < ROUNDS / 10 {
            let mut show = Command::new(MONITOR);
            show.args(["job", "show", &job.name(), "--mpir"]);
            command.push(timed(|| assert!(show.output().unwrap().status.success())));
        }
    }
    let cpu = (daemon.cpu_ns() - own) / 1e6 / ROUNDS as f64;
    let (bare, served) = (median(bare), median(served));
    line("table: 64 sleeping ranks, bare read of environments", bare, "ms", Bar::None);
    line("  job_info of a service, p50", served, "ms", Bar::AtMost(2.0 * bare + 1.0));
    line("  CPU of the service, each", cpu, "ms", Bar::None);
    line("  job show --mpir, whole command", median(command), "ms", Bar::None);
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}
