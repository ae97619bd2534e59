//! L3, when to read, what to show of it and what it adds up to.
//!
//! Synchronous and pure: samples and time come in as values.

pub mod family;
pub mod filter;
pub mod group;
mod growth;
pub mod job;
mod kin;
pub mod need;
pub mod order;
pub mod pick;
pub mod schedule;
pub mod session;
