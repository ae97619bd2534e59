//! The HTTP listener from outside: metrics as collectors read them, and what is refused.

mod browser;
mod collector;
mod get;
mod history;
mod metrics;
mod page;
mod pushed;
mod refused;
mod replay;
mod rules;
mod secure;
mod shipped;
mod viewer;
