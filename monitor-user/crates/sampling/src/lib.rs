//! L3, when to read, what to show of it and what it adds up to.
//!
//! Synchronous: samples and time come in as values.

pub mod account;
pub mod beat;
pub mod budget;
pub mod census;
mod durations;
pub mod examination;
pub mod expression;
pub mod eye;
pub mod family;
pub mod fields;
pub mod file;
pub mod filter;
pub mod group;
pub mod grouping;
mod growth;
pub mod job;
mod kin;
pub mod ledger;
pub mod linger;
pub mod need;
pub mod order;
pub mod past;
pub mod pick;
pub mod plan;
pub mod round;
pub mod schedule;
pub mod scrape;
pub mod session;
#[cfg(test)]
mod sight;
pub mod target;
pub mod totals;
mod trail;
pub mod veil;
pub mod view;
pub mod whole;
