//! The screen: what a person sees of a node, and does with keys and mouse.
//!
//! ```text
//!  key, mouse, resize, news --> State::take --> Effect (end, act on a process)
//!                                 State --> draw --> frame
//!                                 State --> Demand --> Feed --> news
//! ```
//!
//! `state` and `draw` are pure: no clock, no terminal, no backend. `feed` says where numbers come
//! from: a backend here (`local`), a recording (`played`), a daemon (above). `run` ties them to a
//! terminal.

pub mod act;
pub mod column;
pub mod demand;
pub mod draw;
pub mod feed;
pub mod key;
pub mod local;
pub mod look;
pub mod own;
pub mod played;
mod reader;
pub mod rule;
pub mod run;
pub mod state;
mod terminal;
