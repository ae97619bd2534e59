//! Benchmarks of the costs of the monitor, as ratios within one run: `cargo xtask bench [NAME]`.
//!
//! Prints the machine, then a line per limit: the measured value, the limit, and whether it holds.
//! These are not tests: a busy machine changes every number, but ratios within one run are stable.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that cannot run panics")]

mod activity;
mod cluster;
mod files;
mod flood;
mod jobs;
mod kernel_memory;
mod language;
mod load;
mod measure;
mod peers;
mod procfs;
mod program;
mod record;
mod requests;
mod rules;
mod run;
mod scrape;
mod service;
mod snapshot;
mod start;
mod switch;
mod top;
mod truth;
mod verdict;
mod watch;
mod web;

/// `cargo xtask bench` uses the same names.
const BENCHES: &[(&str, fn())] = &[
    ("snapshot", snapshot::run),
    ("activity", activity::run),
    ("procfs", procfs::run),
    ("switch", switch::run),
    ("watch", watch::run),
    ("peers", peers::run),
    ("top", top::run),
    ("language", language::run),
    ("service", service::run),
    ("flood", flood::run),
    ("rules", rules::run),
    ("run", run::run),
    ("start", start::run),
    ("record", record::run),
    ("scrape", web::run),
    ("truth", truth::run),
    ("requests", requests::run),
    ("jobs", jobs::run),
    ("files", files::run),
    ("cluster", cluster::run),
];

fn main() {
    if jobs::serve_as_rank()
        || rules::serve_as_target()
        || requests::serve_as_target()
        || record::work()
        || files::serve_as_program()
        || cluster::serve_as_floor()
    {
        return;
    }
    // `cargo bench` passes its own flags; a name without dashes picks benches.
    let wanted: Vec<_> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    for unknown in wanted.iter().filter(|it| BENCHES.iter().all(|(name, _)| name != it)) {
        println!("unknown bench `{unknown}`");
    }
    println!("{}", measure::machine());
    for (name, run) in BENCHES {
        if wanted.is_empty() || wanted.iter().any(|it| it == name) {
            println!("\n{name} (load {})", measure::load());
            run();
        }
    }
}
