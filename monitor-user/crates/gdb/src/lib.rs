//! gdb's remote protocol, served by an ordinary client of the monitor.
//!
//! ```text
//!  gdb --- target remote | monitor gdb --serve PID
//!              serve       packets; own_packets are those that gdbstub lacks
//!              target      what gdbstub asks of a target; host_io files
//!              debuggee    stopped or running: stops, steps, signals
//!              session     the request language --> socket of the monitor
//! ```
//!
//! In: packets of gdb. Out: requests of the language, which docs/DEBUGGING.md lists. It traces
//! nothing itself and uses the socket as any tool does: any number of debuggers, rules and screens
//! share a process, and a thread runs once none of them holds it.

#![warn(clippy::missing_errors_doc)]

mod breakpoints;
mod caught_calls;
mod debuggee;
mod description;
mod files;
mod host_io;
mod own_packets;
mod packet;
mod registers;
mod serve;
mod session;
mod signals;
mod target;
mod thread_locals;
mod watchpoints;

pub use serve::{ServeError, serve};
pub use session::CallError;
