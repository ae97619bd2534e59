//! The PMIx host of one job: starts its ranks on this node, and serves them.
//!
//! In: a program, a number of ranks, an environment. Out: the ranks, what they write, and how the
//! job ended. `libpmix` is opened at run time and serves the clients of its protocol; what it
//! cannot answer itself comes as upcalls. A fault of the library ends this process and the job, so
//! each job has a process of its own, with the rights of its user. Tools of that user and of root
//! connect to it.

#![allow(unsafe_code, reason = "a C library is called, and calls back")]

pub mod attribute;
pub mod attribute_json;
pub mod host;
mod kind;
mod libpmix;
pub mod registration;
pub mod rendezvous;
mod service_usage;
pub mod status;
pub mod system_server;
mod upcall;

pub use libpmix::{
    InputSender, MOST_INPUT, OutputReceiver, PmixError, Tool, ToolEvent, check_installed,
};
pub use service_usage::{NodeWithoutSample, ServiceUsage};
pub use upcall::SpawnedApp;
