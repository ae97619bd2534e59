//! What the monitor costs, as ratios within one run: `cargo xtask bench [NAME]`.
//!
//! Prints the machine, then a line for each bar: what was measured, the bar, and whether it holds.
//! Nothing here is a test: a busy machine moves every number, and two in one run move together.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that cannot run says so")]

mod language;
mod load;
mod measure;
mod peers;
mod procfs;
mod program;
mod record;
mod rules;
mod scrape;
mod service;
mod snapshot;
mod switch;
mod top;
mod verdict;
mod watch;

/// `cargo xtask bench` knows them by the same names.
const BENCHES: &[(&str, fn())] = &[
    ("snapshot", snapshot::run),
    ("procfs", procfs::run),
    ("switch", switch::run),
    ("watch", watch::run),
    ("peers", peers::run),
    ("top", top::run),
    ("language", language::run),
    ("service", service::run),
    ("rules", rules::run),
    ("record", record::run),
];

fn main() {
    if rules::serve_as_target() || record::work() {
        return;
    }
    // `cargo bench` passes its own flags; a name without dashes picks benches.
    let wanted: Vec<_> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    for unknown in wanted.iter().filter(|it| BENCHES.iter().all(|(name, _)| name != it)) {
        println!("there is no bench `{unknown}`");
    }
    println!("{}", measure::machine());
    for (name, run) in BENCHES {
        if wanted.is_empty() || wanted.iter().any(|it| it == name) {
            println!("\n{name} (load {})", measure::load());
            run();
        }
    }
}
