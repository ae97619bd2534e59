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
use rustix::process::{Signal, getpid, kill_process};
use rustix::stdio::dup2_stdin;
use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::sync::OnceLock;

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
    if args.held_by_parent {
        take_holder().map_err(|error| Failure::failed(format!("job launch: {error}")))?;
    }
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
        started: match args.keep {
            Some(_) if args.held_by_parent => say_started_and_watch,
            Some(_) => say_started,
            None => || true,
        },
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

/// The pipe from the process that holds the ranks.
static HOLDER: OnceLock<File> = OnceLock::new();

/// Takes the pipe, which is the standard input: the first rank would have it.
fn take_holder() -> io::Result<()> {
    let holder = io::stdin().as_fd().try_clone_to_owned()?;
    // There is one.
    let _set = HOLDER.set(File::from(holder));
    dup2_stdin(&File::open("/dev/null")?)?;
    Ok(())
}

/// Says the same, and ends the job if the process that holds the ranks ends before it says that
/// they are held, or run: some of them may be stopped.
fn say_started_and_watch() -> bool {
    let Some(mut holder) = HOLDER.get() else { return false };
    let _ends_with_the_process = std::thread::spawn(move || {
        if !matches!(holder.read(&mut [0]), Ok(1)) {
            // It ends the ranks, also those that are stopped, and keeps nothing.
            let _sent = kill_process(getpid(), Signal::HUP);
        }
    });
    say_started()
}
