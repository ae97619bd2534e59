//! `monitor cluster`: what a site needs for a cluster, and whether a node has it.
//!
//! In: arguments. Out: files, or a report. Both need the client of NATS: a program without it says
//! so.

pub mod args;
#[cfg(feature = "nats")]
mod doctor;
#[cfg(feature = "nats")]
mod init;

use super::exit::{Exit, Failure};
use args::ClusterArgs;
#[cfg(feature = "nats")]
use args::ClusterCommand;

/// Runs the command.
#[cfg(feature = "nats")]
pub fn cluster(args: &ClusterArgs) -> Result<Exit, Failure> {
    match &args.command {
        ClusterCommand::Init(args) => init::init(args),
        ClusterCommand::Doctor(args) => doctor::doctor(args),
    }
}

/// Says that this program cannot.
#[cfg(not(feature = "nats"))]
pub fn cluster(_: &ClusterArgs) -> Result<Exit, Failure> {
    let why = "this program has no client of NATS: build it with --features nats";
    Err(Failure::failed(why))
}
