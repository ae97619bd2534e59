//! The implementations of [`monitor_backend::Backend`]: eBPF, `/proc` with TCP by netlink, canned
//! values.
//!
//! In: a read specification. Out: a `Sample` with notes. [`select`] opens the best backend that
//! works.

pub mod canned;
pub mod device;
pub mod ebpf;
pub mod host;
pub mod inet_diag;
pub mod pidfd_watch;
pub mod procfs;
pub mod select;
pub mod tcp;
pub mod unsupported;
pub mod user;
