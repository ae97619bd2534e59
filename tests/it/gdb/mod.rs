//! gdb on real programs, through a service: `monitor gdb`.

mod debuggee;
mod protocol;
mod session;
mod shared;
mod transcript;
