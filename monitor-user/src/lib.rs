//! What every process of a node uses, and what happens to it.
//!
//! ```text
//!  cli  L9   commands
//!  backend L2  eBPF, /proc, canned values: `Sample`
//!  sys  L1   system calls
//!  model L0  fields, samples, rates
//! ```

// L0: pure.
pub mod model;
// L1: system calls the libraries lack.
pub mod sys;
// L2: who reads.
pub mod backend;
// L3: when to read, and what it adds up to.
pub mod meter;
