//! Requests through the service: the first attach, events at each level, and breakpoints whose
//! condition does not hold, against gdb and gdbserver.

mod attach;
mod condition;
mod levels;
mod session;
mod target;

pub use session::Session;
pub use target::serve_as_target;

/// Runs all; needs root.
pub fn run() {
    if !rustix::process::geteuid().is_root() {
        println!("  needs root to load BPF programs");
        return;
    }
    attach::run();
    levels::run();
    condition::run();
}
