//! The extension `diag_`: unusual events, told when they happen too often.
//!
//! ```text
//!  row    diag_event, diag_watch, diag_finalize, diag_list, diag_traced
//!  tally  the rule: at least C times, at most once every T      fold  many processes, one line
//!  book   all that is counted on this node, and what is to be told when
//! ```
//!
//! In: events of the language, and static probes of libraries (`monitor_diag.h`). Out: lines, as
//! the proposal of a diagnostic framework for Open MPI has them (2009-05-26), at the node's log and
//! for the tools that wait for `diag_traced`.

pub mod book;
mod fold;
pub mod row;
pub mod tally;

pub use book::{Book, Event, Override, Settings, Sight};
pub use tally::Threshold;
