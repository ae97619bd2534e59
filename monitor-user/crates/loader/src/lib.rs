//! The loader: loads the eBPF programs of `monitor-ebpf`, reads their maps as samples and runs rule
//! programs. Where the kernel refuses them, [`select`] falls back to `/proc`.
//!
//! In: a read specification, or rule programs. Out: a `Sample` with notes, or rule records. Only
//! the program and its tests use this crate; the others are given what [`select::opener`] opens.

mod attach_types;
mod block;
mod btf_blob;
mod btf_offsets;
pub mod call_profile;
mod counter_floors;
mod cpu_times;
mod decode;
mod ebpf;
mod exact_cpu;
mod fdinfo;
mod health;
mod iter_reader;
mod kernel;
mod last_reading;
mod late_usage;
mod lifecycle;
mod object;
mod owner;
mod pid_ns;
mod probe_reader;
pub mod rule;
mod run_queue;
pub mod select;
mod signal;
mod snapshot;
mod socket;
mod socket_hooks;
mod socket_rescan;
mod tcp;
mod tcp_dump;
mod unreported_exits;
mod uprobe_link;
mod uprobe_links;
mod zombie_peaks;

pub use ebpf::Ebpf;
pub use probe_reader::Readings;
