//! The HTTP listener as its clients use it: metrics, the page and refusals.

pub mod browser;
mod collector;
pub mod get;
mod history;
pub mod metrics;
mod page;
pub mod pushed;
mod refused;
mod replay;
mod rules;
#[cfg(feature = "tls")]
mod secure;
mod shipped;
mod viewer;
