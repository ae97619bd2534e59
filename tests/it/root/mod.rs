//! Tests on the running kernel. Each makes a known workload and compares what the monitor says
//! with what the kernel itself counted. They need privilege, and say so when they are skipped.

mod account;
pub mod actor;
mod block;
pub mod conservation;
mod container;
mod cpu_clock;
mod doctor;
mod eavesdropping;
mod equal;
mod exact_cpu;
mod first;
mod first_thread;
mod grouped;
pub mod harmless;
mod hidden;
mod hotplug;
mod http_share;
mod inet_diag;
mod lifecycle;
mod named_files;
mod preferred;
pub mod privilege;
mod proc_mount;
mod rank;
mod reuse;
mod rule;
mod run;
mod run_queue;
mod signal;
mod snapshot;
mod socket;
mod stopped_worker;
mod tcp;
mod trampoline;
pub mod undo;
pub mod workload;
