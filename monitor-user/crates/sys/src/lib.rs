//! L1, system calls that the libraries lack: the only home of unsafe code in user space.
#![allow(unsafe_code, reason = "each block is one call with its reason")]

pub mod account;
pub mod barrier;
pub mod bpf;
pub mod clock;
pub mod code;
pub mod extents;
pub mod files;
pub mod ipc;
pub mod memory;
pub mod namespace;
pub mod peer;
pub mod pidfd;
pub mod place;
pub mod priority;
pub mod readable;
pub mod rights;
pub mod shown;
pub mod spawn;
pub mod timer;
pub mod trace;
pub mod user;
pub mod wait;
pub mod words;
