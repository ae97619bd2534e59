//! Every outside-in test, in one binary.
#![allow(clippy::unwrap_used, reason = "a test says what it expected by failing there")]
#![allow(clippy::print_stdout, reason = "measured figures are shown with --nocapture")]

mod backend;
mod cli;
mod client;
mod cluster;
mod cluster_messages;
mod conformance;
mod control;
mod daemon;
mod deadline;
mod delivery;
mod extension;
mod gdb;
mod golden;
mod guardian;
mod job;
mod language;
mod listener;
#[cfg(feature = "nats")]
mod nodes;
mod page;
mod picture;
mod probe;
mod record;
mod request;
mod request_nodes;
mod root;
mod run;
mod served;
mod shortfall;
mod soak;
mod socket_session;
mod top;
mod web;
