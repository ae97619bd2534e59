//! L3, when to read, what to show of it and what it adds up to.
//!
//! Synchronous: samples and time come in as values.

pub mod family;
pub mod filter;
pub mod grave;
pub mod linger;
pub mod need;
pub mod order;
pub mod pick;
pub mod plan;
pub mod round;
pub mod schedule;
pub mod session;
pub mod target;
pub mod veil;
pub mod view;
