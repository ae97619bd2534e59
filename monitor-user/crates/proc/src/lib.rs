//! Parsers of the files below `/proc`.
//!
//! In: bytes. Out: values, or the name of the field that is malformed.
//! Keeps no file open; `monitor_backends::procfs` does.

#![warn(clippy::missing_errors_doc)]

pub mod cgroup;
pub mod cgroup_cpu;
pub mod cpu;
pub mod io;
pub mod maps;
pub mod memory;
pub mod pressure;
pub mod scan;
pub mod schedstat;
pub mod smaps;
pub mod stat;
pub mod status;
