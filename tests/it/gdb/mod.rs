//! gdb on real programs, through a service: `monitor gdb`.

mod debuggee;
mod programs;
mod protocol;
mod session;
mod sessions;
mod shared;
mod transcript;
