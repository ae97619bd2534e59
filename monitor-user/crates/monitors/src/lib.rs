//! Monitors: calls in, replies and events out.
//!
//! ```text
//!  listener --MonitorInput--> engine --MonitorOutput--> listener, reader
//!                               |
//!          monitor, alarm, accounting, pending: the state of one monitor or call
//! ```

// Data.
mod accounting;
mod alarm;
mod answer;
mod caller;
mod message;
mod monitor;
mod pending;
mod reading_shares;
mod timer_queue;

// The engine; after it, its methods by call.
mod engine;

mod alarm_calls;
mod cancel;
mod child_usage_calls;
mod lease;
mod process_registration;
mod reading;
mod start;

// Around the engine.
pub mod embedded;

pub use answer::{Answer, NodeAnswer};
pub use caller::{Caller, UserLimits};
pub use engine::MonitorEngine;
pub use message::{FileToStat, MonitorInput, MonitorKey, MonitorOutput, ReadRequest, ServiceQuery};
pub use reading_shares::ReadingBudget;

#[cfg(test)]
mod tests;
