//! Parsers of the texts below `/proc`. In: bytes. Out: values, or the field that made no sense.
//!
//! Nothing here keeps a file open; `monitor_backends::procfs` does.

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
