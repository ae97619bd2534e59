//! System calls that the libraries lack, and small facts of this host and this process.
//!
//! The only crate with unsafe code outside the eBPF loader. Each module wraps one interface of the
//! kernel or the C library; none keeps state or knows what its callers use it for.
#![allow(unsafe_code, reason = "each block is one call with its reason")]

pub mod bpf;
pub mod clock;
pub mod copy;
pub mod exit_closer;
pub mod extents;
pub mod fd_limit;
pub mod fsuid;
pub mod ipc;
pub mod membarrier;
pub mod memory;
pub mod mmap_file;
pub mod mmapped_array;
pub mod namespace;
pub mod peer;
pub mod pending_signals;
pub mod perf_counter;
pub mod perf_event;
pub mod pidfd;
pub mod priority;
pub mod probed_code;
pub mod ptrace;
pub mod random;
pub mod readable;
pub mod service_settings;
pub mod spawn;
pub mod tcp_peer;
pub mod thread_root;
pub mod timer;
pub mod trim_text;
pub mod users;
pub mod wait;
