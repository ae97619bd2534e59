//! The implementations of [`monitor_backend::Backend`]: eBPF, `/proc`, TCP by netlink, canned values.
//!
//! [`select`] opens the best one that works. In: what is wanted. Out: a `Sample` with notes.

pub mod canned;
pub mod device;
pub mod ebpf;
pub mod hold;
pub mod host;
pub mod inet_diag;
pub mod procfs;
pub mod select;
pub mod tcp;
pub mod unsupported;
pub mod user;
