//! `monitor job launch --with pmix --background`: the side of the command.
//!
//! In: the arguments. Out: another process of this program, which starts the ranks and keeps their
//! output; what is printed when they run.

use super::background::{STARTED, Started, leave_terminal, start_in_background};
use super::host_command::new_id;
use super::host_connection::LAUNCH;
use super::launch_args::JobLaunchArgs;
use super::launch_background::launch_words;
use crate::cli::exit::Failure;
use crate::cli::output;
use monitor_control::user_worker::SELF_EXE;
use monitor_format::human;
use monitor_sys::fd_limit;
use monitor_sys::pidfd::returned_code;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// What the process says when the ranks run.
#[derive(Serialize, Deserialize)]
struct RunningJob {
    job: String,
    server: u32,
}

/// Starts it, and prints the id of the job. Returns the exit code.
///
/// # Errors
/// If it cannot be started.
pub fn launch(args: &JobLaunchArgs) -> Result<u8, Failure> {
    let mut command = Command::new(SELF_EXE);
    command.arg0("monitor").args(["job", "launch", "--background", "--kept-as", &new_id(LAUNCH)]);
    command.args(["--keep", &format!("{}ns", args.keep.as_nanos())]);
    command.args(launch_words(args));
    fd_limit::restore_in(&mut command);
    let (host, line) = match start_in_background(&mut command)? {
        Started::Runs { host, rest } => (host, rest),
        Started::Ended(status) => return Ok(returned_code(status)),
    };
    let RunningJob { job, server } = serde_json::from_str(&line).map_err(Failure::failed)?;
    let text = match args.format.as_str() {
        "json" => output::json(&json!({
            "schema_version": 1, "job": job, "host_pid": host, "server_pid": server,
        }))?,
        _ => {
            let job = human::escaped_text(&job);
            let output = format!("its output: monitor job output {job}");
            format!("job {job} runs, started by process {server}; {output}\n")
        }
    };
    output::print(text.as_bytes()).map(|exit| exit as u8)
}

/// Says to the command that the ranks run, and leaves its terminal. Returns whether it was still
/// there.
///
/// # Errors
/// None that a job can have.
pub fn say_started(job: &str, server: u32) -> Result<bool, Failure> {
    let running = RunningJob { job: job.to_owned(), server };
    let line = serde_json::to_string(&running).map_err(Failure::failed)?;
    Ok(leave_terminal(&format!("{STARTED} {line}")))
}
