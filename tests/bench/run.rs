//! How often `monitor run` counts every process of a command, beside busy loops: 50 processes of a
//! shell that ends right after them, in this process and by the daemon. `MONITOR_BENCH_RUNS=1000`
//! takes as many runs of each.

use crate::load::beside;
use crate::service::Daemon;
use crate::verdict::{Bar, line};
use crate::watch::MONITOR;
use std::process::Command;

/// Default number of runs, overridden by `MONITOR_BENCH_RUNS`.
const RUNS: usize = 100;
const BUSY_LOOPS: usize = 8;
const SCRIPT: &str = r#"sh -c 'i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i+1)); done; :'; :"#;
/// In JSON: two shells and 50 processes.
const EXACT: &str = r#""processes_started":52,"#;

pub fn run() {
    let runs = std::env::var("MONITOR_BENCH_RUNS").ok().and_then(|it| it.parse().ok());
    let runs = runs.unwrap_or(RUNS);
    let daemon = Daemon::start();
    let socket = daemon.socket().to_string_lossy();
    let (local, by_daemon) = (vec!["--local"], vec!["--socket", &socket]);
    beside(BUSY_LOOPS, || {
        for (what, source) in [("locally", &local), ("by the daemon", &by_daemon)] {
            let wrong = (0..runs).filter(|_| !is_exact(source)).count();
            let what = format!("{runs} runs {what}: those that lack a process");
            line(&what, wrong as f64, "runs", Bar::AtMost(0.0));
        }
    });
}

/// Whether a run counts each process once. Prints the report of one that does not.
fn is_exact(source: &[&str]) -> bool {
    let mut command = Command::new(MONITOR);
    command.arg("run").args(source).args(["--format", "json", "--", "sh", "-c", SCRIPT]);
    let output = command.output().unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    let is_exact = report.contains(EXACT);
    if !is_exact {
        println!("{report}{}", String::from_utf8_lossy(&output.stderr));
    }
    is_exact
}
