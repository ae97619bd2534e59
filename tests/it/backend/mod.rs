//! What backends promise, and what each of them reads.

mod canned;
pub mod contract;
mod hostile;
mod node;
pub mod origin;
mod procfs;
mod tree;
mod unsupported;
