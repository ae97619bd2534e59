//! Query planning, shared readings and aggregation.
//!
//! In: requests, samples, time. Out: what to read, and the output of each consumer: selected rows,
//! groups, jobs, usage. Synchronous: samples and time come in as values; has no thread and no
//! clock.

pub mod approximate_notes;
pub mod budget;
pub mod capability_deps;
pub mod child_usage;
pub mod consumer;
mod cursor_log;
mod delta;
pub mod detach_delay;
pub mod doctor_report;
pub mod exit_log;
pub mod expression;
pub mod fields;
pub mod file_watch;
pub mod filter;
pub mod flight_consumer;
pub mod group;
pub mod grouping;
pub mod heartbeat;
pub mod job;
pub mod job_index;
mod latency_deltas;
pub mod named_ends;
pub mod order;
mod parents;
pub mod pipeline;
pub mod plan;
pub mod process_tree;
pub mod schedule;
pub mod scrape;
pub mod select_rows;
pub mod session;
pub mod shared_read;
pub mod target;
pub mod totals;
pub mod usage_report;
pub mod view;
#[cfg(test)]
mod view_tests;
pub mod visibility;
