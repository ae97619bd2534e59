//! The service from outside: what goes over its socket, and what becomes of those who end badly.

mod bad;
mod gone;
mod request;
mod slow;
mod stopped;
