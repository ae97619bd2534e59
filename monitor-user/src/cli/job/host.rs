//! `monitor job host`: the PMIx host of one job, which `job launch -n` starts.
//!
//! In: a program and a number of ranks. Out: what the ranks write; the exit code of the job.

use super::background::{STARTED, leave_terminal};
use super::hold_report::report_hold;
use super::host_command::PROGRAM;
use super::host_usage::HostUsage;
use super::launch_args::JobHostArgs;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::cli::run::not_started;
use monitor_pmix::host::{HostError, HostPlan, run};
use std::env;

/// Runs the ranks. Returns the exit code of the job.
///
/// # Errors
/// If PMIx is not installed, or refuses the job.
pub fn host(args: &JobHostArgs) -> Result<u8, Failure> {
    if args.keep.is_some() {
        // Ctrl-C at the terminal of the command is not for it. A leader of a group stays one.
        let _own = rustix::process::setsid();
    }
    // The name by which a launcher of this kind is known; without it, only that name is missing.
    let _named = rustix::thread::set_name(PROGRAM);
    let plan = HostPlan {
        nspace: args.id.clone(),
        command: args.command.clone(),
        ranks: args.ranks,
        environment: env::vars_os().collect(),
        tags: args.tag,
        folder: env::temp_dir(),
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        notice: output::notice,
        stops_in_app: args.stop_in_app,
        keeps: args.keep,
        held: report_hold,
        started: if args.keep.is_some() { say_started } else { || true },
    };
    match run(plan, Box::new(HostUsage::default())) {
        Ok(code) => Ok(code),
        Err(HostError::NotStarted { error, .. }) => Ok(not_started(&args.command[0], &error)),
        Err(error) => Err(Failure::failed(format!("job launch: {error}"))),
    }
}

/// Says to the command that the ranks run. Returns whether it was still there.
fn say_started() -> bool {
    leave_terminal(&format!("{STARTED} {}", std::process::id()))
}
