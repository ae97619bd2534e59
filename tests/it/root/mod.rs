//! Tests on the running kernel. Each makes a known workload and compares what the monitor says
//! with what the kernel itself counted. They need privilege, and say so when they are skipped.

mod actor;
mod block;
mod doctor;
mod equal;
mod exact_cpu;
mod life;
pub mod privilege;
mod run;
mod run_queue;
mod signal;
mod snapshot;
mod socket;
mod tcp;
pub mod undo;
pub mod workload;
