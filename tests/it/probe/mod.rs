//! Probes on system libraries, and on programs that the tests build.

mod find;
pub mod fixture;
mod hostile;
mod late;
mod load;
mod message;
pub mod mpi;
pub mod pvm;
mod queue;
mod site;
mod tap;
pub mod when;
