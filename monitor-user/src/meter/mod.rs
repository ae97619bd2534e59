//! L3, when to read and what it adds up to. Synchronous; time comes in as a value.

pub mod family;
