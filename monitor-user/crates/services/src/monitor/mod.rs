//! The extension `mon_`: the monitoring service, asked in the language of requests.
//!
//! In: what to read, of whom, how often; what should happen in time. Out: samples and alerts, as
//! the reply and as events. There is no second engine behind it: each request is a call on the
//! monitors of the node in the name of the tool (`ground::Monitors`), so fields, targets, limits
//! and rights are those of the socket.

pub mod alarm;
mod ask;
pub mod heard;
mod row;
mod value;

pub use row::ROWS;
