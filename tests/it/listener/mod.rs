//! The listener of the service: access, visibility, limits and invalid input.

mod budget;
mod config;
pub mod files;
mod files_agg;
mod files_clients;
mod files_copy;
mod files_events;
mod files_flush;
#[cfg(feature = "tls")]
pub mod files_listen;
mod files_mon;
mod files_mount;
mod files_nodes;
mod files_push;
mod files_run_nodes;
pub mod files_session;
mod files_session_job;
mod files_session_monitor;
mod hostile;
mod limit;
mod relayed;
mod systemd;
pub mod unit;
mod visibility;
