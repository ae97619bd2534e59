//! Where probes may stand: on libraries of the system and on programs that are built here.

mod find;
pub mod fixture;
mod hostile;
mod load;
mod message;
pub mod mpi;
mod pvm;
mod queue;
mod site;
mod tap;
mod when;
