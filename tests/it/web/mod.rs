//! The HTTP listener from outside: metrics as collectors read them, and what is refused.

mod browser;
mod collector;
mod get;
mod metrics;
mod page;
mod refused;
