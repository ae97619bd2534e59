//! `monitor job`: the parallel jobs of this node.
//!
//! In: processes with their ranks, read here with the rights of the user; an environment. Out: the
//! list of jobs, the process table of one, its merged call stacks, and what directives make of an
//! environment. Opens no connection to a runtime; only `stacks` stops processes, each for less than
//! milliseconds.

pub mod args;
mod env;
mod job_stacks;
mod list;
mod measure;
mod reader;
mod show;
mod show_text;
mod stacks;
mod stacks_export;
mod stacks_text;

use super::exit::{Exit, Failure};
use args::{JobArgs, JobCommand};

/// Runs a command of the group.
pub fn job(args: &JobArgs) -> Result<Exit, Failure> {
    match &args.command {
        JobCommand::List(args) => list::list(args),
        JobCommand::Show(args) => show::show(args),
        JobCommand::Stacks(args) => stacks::stacks(args),
        JobCommand::Env(args) => env::explain(args),
    }
}
