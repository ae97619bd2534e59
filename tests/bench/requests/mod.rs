//! Breakpoints through the service: what a hit costs whose condition does not hold, against gdb and
//! gdbserver, and one that stops its thread.

mod condition;
mod held;
mod target;

pub use target::serve_as_target;

/// Runs all; needs root.
pub fn run() {
    if !rustix::process::geteuid().is_root() {
        println!("  needs root to load BPF programs");
        return;
    }
    condition::run();
    held::run();
}
