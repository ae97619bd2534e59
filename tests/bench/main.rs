//! What the monitor costs, as ratios within one run: `cargo xtask bench`.
//!
//! Prints the machine, then a line for each bar: what was measured, the bar, and whether it holds.
//! Nothing here is a test: a busy machine moves every number, and two in one run move together.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that cannot run says so")]

mod load;
mod measure;
mod snapshot;
mod switch;
mod verdict;
mod watch;

fn main() {
    // `cargo bench` passes its own flags; a name without dashes picks benches.
    let wanted: Vec<_> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let all: &[(&str, fn())] =
        &[("snapshot", snapshot::run), ("switch", switch::run), ("watch", watch::run)];
    println!("{}", measure::machine());
    for (name, run) in all {
        if wanted.is_empty() || wanted.iter().any(|it| it == name) {
            println!("\n{name}");
            run();
        }
    }
}
