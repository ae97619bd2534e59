//! Tests on the running kernel. Each makes a known workload and compares what the monitor says
//! with what the kernel itself counted. They need privilege, and say so when they are skipped.

mod block;
mod exact_cpu;
mod life;
mod privilege;
mod run_queue;
mod snapshot;
mod undo;
mod workload;
