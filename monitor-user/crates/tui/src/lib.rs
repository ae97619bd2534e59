//! The screen of `monitor top`.
//!
//! ```text
//!  key, mouse, resize, update --> ScreenState::handle --> Effect (quit, act on a process)
//!                                  ScreenState --> draw --> frame
//!                                  ScreenState --> ViewQuery --> FeedSource --> update
//! ```
//!
//! `state` and `draw` are pure: no clock, no terminal, no backend. `feed_source` defines where
//! values come from: a backend (`local_source`), a recording (`replay_source`) or a daemon (above).
//! `run` connects them to a terminal; `cluster` is the screen of many nodes on the same terminal.

pub mod cluster;
pub mod column;
pub mod draw;
pub mod feed_source;
pub mod key;
pub mod local_source;
pub mod process_action;
mod reader;
pub mod replay_source;
pub mod rule;
pub mod run;
pub mod state;
mod terminal;
pub mod theme;
pub mod view_query;
