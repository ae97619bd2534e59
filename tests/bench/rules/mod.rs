//! Rules in the kernel: what a hit costs whom it happens to, what is lost, how soon it is told, and
//! how soon what was held runs on.

mod cost;
mod guardian;
mod latency;
mod ptrace;
mod storm;
mod target;

pub use target::serve_as_target;

/// Costs as ratios, a storm of records, the way to user space, the same by ptrace, and the end.
pub fn run() {
    if !rustix::process::geteuid().is_root() {
        println!("  needs root to load BPF programs");
        return;
    }
    let hit_ns = cost::run();
    ptrace::run(hit_ns);
    storm::run();
    latency::run();
    guardian::run();
}
