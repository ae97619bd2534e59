//! Rules in the kernel: cost of a hit, lost records, latency to user space, and time to resume
//! stopped processes.

mod cost;
mod guardian;
mod latency;
mod ptrace;
mod storm;
mod target;
mod unwatched;

pub use cost::{Both, Empty};
pub use target::{serve_as_target, site_of};

/// Runs all benches of rules; needs root.
pub fn run() {
    if !rustix::process::geteuid().is_root() {
        println!("  needs root to load BPF programs");
        return;
    }
    let hit_ns = cost::run();
    ptrace::run(hit_ns);
    storm::run();
    unwatched::run();
    latency::run();
    guardian::run();
}
