//! The command of the PMIx host of a job, which is this program as a process of its own.
//!
//! In: the arguments of `job launch -n`. Out: a command; or why ranks cannot be started here.

use super::background::{Started, start_in_background};
use super::launch_args::JobLaunchArgs;
use super::target::JobTarget;
use crate::cli::exit::Failure;
use crate::cli::output;
use monitor_control::job_folder::{path_of, remove_left};
use monitor_control::stop_all::{Outcomes, signal_all};
use monitor_control::user_worker::SELF_EXE;
use monitor_jobs::Runtime;
use monitor_jobs::envar::Environment;
use monitor_jobs::hold_table::HoldPoint;
use monitor_model::Identity;
use monitor_sys::pidfd::returned_code;
use monitor_sys::users;
use rustix::process::Signal;
use serde_json::json;
use std::collections::hash_map::RandomState;
use std::ffi::CStr;
use std::hash::BuildHasher as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// The command name of the host.
pub const PROGRAM: &CStr = c"monitor-pmix";
/// What is added to a signal in an exit code.
const SIGNALS: i32 = 128;
/// The daemon of Slurm on a compute node.
const SLURM_DAEMON: &str = "slurmd";
/// The variable with the home directory.
const HOME: &str = "HOME";
/// Set in an allocation of Slurm.
const ALLOCATION: &str = "SLURM_JOB_ID";

/// The command that starts this number of ranks of the program.
///
/// # Errors
/// If the program is a launcher itself; on a node of Slurm, outside an allocation.
pub fn host_command(args: &JobLaunchArgs, ranks: u32) -> Result<Command, Failure> {
    let program = &args.command[0];
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    if Runtime::of_program(&name).is_some() {
        let why = format!("{name} is a launcher: leave out -n, or name the program of the ranks");
        return Err(Failure::usage(why));
    }
    if std::env::var_os(ALLOCATION).is_none() && runs_slurm() {
        let why = "this node belongs to Slurm: start ranks in an allocation (salloc, sbatch)";
        return Err(Failure::usage(why));
    }
    let mut command = Command::new(SELF_EXE);
    // In the background, its parent ends what it leaves when it is killed.
    let parent: &[&str] = if args.background { &["host-guard", "--"] } else { &["host"] };
    command.arg0("monitor").arg("job").args(parent).args(["-n", &ranks.to_string()]);
    command.args(["--id", &id()]);
    if args.tag {
        command.arg("--tag");
    }
    if args.hold_point() == Some(HoldPoint::App) {
        command.arg("--stop-in-app");
    }
    if args.background {
        command.args(["--keep", &format!("{}ns", args.keep.as_nanos())]);
    }
    if args.background && args.tracer_of.is_some() {
        command.arg("--held-by-parent");
    }
    command.arg("--").args(&args.command);
    Ok(command)
}

/// The home directory that the host and its ranks need where their environment has none: PMIx does
/// not survive a user without an entry in passwd(5) (`pmix_home_directory`, PMIx 4.2.2 and 5.0).
pub fn missing_home(environment: &Environment) -> Option<(&'static str, &'static str)> {
    let has_home = environment.variables().any(|(name, _)| name == HOME.as_bytes());
    let has_entry = || users::name(rustix::process::geteuid().as_raw()).is_some();
    (!has_home && !has_entry()).then_some((HOME, "/"))
}

/// Starts a host that goes on when this command has ended, and prints the id of its job. Returns
/// the exit code.
pub fn run_in_background(mut command: Command, format: &str) -> Result<u8, Failure> {
    let host: u32 = match start_in_background(&mut command)? {
        Started::Runs { rest, .. } => rest.parse().map_err(Failure::failed)?,
        Started::Ended(status) => {
            // The parent of the host returns a signal as a code.
            let signal = status.code().filter(|code| *code > SIGNALS).map(|code| code - SIGNALS);
            if let Some(signal) = signal.or(status.signal()) {
                host_lost(signal);
            }
            return Ok(returned_code(status));
        }
    };
    print_running(&id(), host, format)
}

/// Prints the id of a job in the background. Returns the exit code.
///
/// # Errors
/// If it cannot be printed.
pub fn print_running(id: &str, host: u32, format: &str) -> Result<u8, Failure> {
    let text = match format {
        "json" => output::json(&json!({ "schema_version": 1, "job": id, "host_pid": host }))?,
        _ => format!("job {id} runs; its output: monitor job output {id}\n"),
    };
    output::print(text.as_bytes()).map(|exit| exit as u8)
}

/// The id of the job that this process starts. A host in the background may have that of an earlier
/// process with this pid, and another user its folder.
pub fn id() -> String {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| new_id("monitor-")).clone()
}

/// An id that begins so.
pub fn new_id(begin: &str) -> String {
    let id = format!("{begin}{}", std::process::id());
    let is_free = path_of(&std::env::temp_dir(), &id).symlink_metadata().is_err();
    if is_free { id } else { format!("{id}-{:08x}", RandomState::new().hash_one(()) >> 32) }
}

/// Says that the host has ended by a signal, ends what is left of its job, and removes its folder.
/// The kernel has killed the ranks, and not their descendants.
pub fn host_lost(signal: i32) {
    output::notice(&format!("host lost: the host of the job ended by signal {signal}"));
    if let Ok(target) = JobTarget::find(&id()) {
        let ids: Vec<Identity> = target.processes().into_iter().map(|(_, id)| id).collect();
        // Those that have ended need nothing.
        let _killed: Outcomes<()> = signal_all(&ids, Signal::KILL.as_raw().cast_unsigned());
    }
    remove_left(&std::env::temp_dir());
}

/// Whether the daemon of Slurm runs here, as root.
fn runs_slurm() -> bool {
    let processes = procfs::process::all_processes().into_iter().flatten().flatten();
    processes
        .filter_map(|it| Some((it.uid().ok()?, it.stat().ok()?.comm)))
        .any(|(uid, comm)| uid == 0 && comm == SLURM_DAEMON)
}
