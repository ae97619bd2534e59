//! The extension `mon_`: the monitoring service through OMIS requests.
//!
//! In: fields, targets, intervals, watches. Out: samples and alerts, as replies and as events. It
//! has no engine of its own: each request is a call to the monitors of the node for the tool
//! (`platform::Monitors`), so fields, targets, limits and rights are those of the socket.

pub mod alarm;
mod calls;
pub mod events;
mod json_value;
mod spec;

pub use spec::SERVICES;
