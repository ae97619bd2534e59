//! The service from outside: its socket, and clients and services that are killed or stopped.

mod bad;
mod flood;
mod gone;
mod request;
mod slow;
mod stopped;
