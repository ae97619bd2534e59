//! The door of the service: who comes in, who sees what, and what nonsense does to it.

mod budget;
mod config;
mod hostile;
mod limit;
mod sight;
mod systemd;
mod unit;
