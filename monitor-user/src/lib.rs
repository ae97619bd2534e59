//! What every process of a node uses, and what happens to it.
//!
//! ```text
//!  cli      L9   commands
//!  meter    L3   when to read, which rows to show
//!  backend  L2   eBPF, /proc, canned values: `Sample`
//!  format   L1   `Rates` as table, CSV, JSON, Prometheus
//!  omis     L1   the request language: text to data and back
//!  sys      L1   system calls
//!  model    L0   fields, samples, rates
//! ```

// L0: pure.
pub mod model;
// L1: text out; the request language; system calls the libraries lack.
pub mod format;
pub mod omis;
pub mod sys;
// L2: who reads.
pub mod backend;
// L3: when to read, which rows to show, and what it adds up to.
pub mod meter;
// L9: commands.
pub mod cli;
