//! Tests of the whole crate: bytes of messages, rules of connections, and hostile input.

mod client;
mod flush;
mod foreign;
mod golden;
mod hostile;
mod rules;
mod world;
