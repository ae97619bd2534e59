//! The implementations of [`monitor_backend::Backend`] without eBPF: `/proc` with TCP by netlink,
//! canned values.
//!
//! In: a read specification. Out: a `Sample` with notes. The crate `loader` has the one with eBPF
//! and the selection.

pub mod canned;
pub mod device;
pub mod environment;
pub mod host;
pub mod inet_diag;
pub mod pidfd_watch;
pub mod procfs;
pub mod tcp;
pub mod unsupported;
pub mod user;
