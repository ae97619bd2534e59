//! `monitor job`: the parallel jobs of this node.
//!
//! In: processes with their ranks, read here with the rights of the user; an environment. Out: the
//! list of jobs, the process table of one, and what directives make of an environment. Acts on no
//! process, and opens no connection to a runtime.

pub mod args;
mod env;
mod list;
mod measure;
mod reader;
mod show;
mod show_text;

use super::exit::{Exit, Failure};
use args::{JobArgs, JobCommand};

/// Runs a command of the group.
pub fn job(args: &JobArgs) -> Result<Exit, Failure> {
    match &args.command {
        JobCommand::List(args) => list::list(args),
        JobCommand::Show(args) => show::show(args),
        JobCommand::Env(args) => env::explain(args),
    }
}
