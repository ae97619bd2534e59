//! Commands on jobs: `job_launch`, `job_output`, `job_query`, `job_notify`, `job_log`.
//!
//! In: what a tool asks. Out: what the command of the same name prints, which the user worker of
//! the tool runs as its user: it finds the jobs of that user alone, unless that is root.

use super::results_of_one;
use crate::process::start::bytes;
use crate::session::StartOptions;
use crate::spec::params;
use crate::{CallContext, Outcome};
use monitor_event::{ActionReport, Refusal};
use monitor_omis::{Status, Text, Value};
use monitor_platform::ProcessAction;
use monitor_platform::action::{JobAct, JobCommand};

/// The exit codes of commands (`monitor --help`); for one that a signal has ended, none.
const KILLED: i32 = -1;
const OK: i32 = 0;
const USAGE: i32 = 2;
const PARTIAL: i32 = 4;
const DENIED: i32 = 5;
const NO_TARGET: i32 = 6;
const TIMED_OUT: i32 = 124;
/// What a message begins with.
const PREFIX: &str = "monitor: ";

/// Runs a command in the folder and the environment of `start_options`.
pub fn run(
    ctx: &mut CallContext<'_>,
    act: JobAct,
    then: crate::context::Completion,
) -> Result<Outcome, Refusal> {
    ctx.session.tool.may_start()?;
    let StartOptions { folder, environment, .. } = ctx.session.start_options.clone();
    ctx.act_on_none(&ProcessAction::JobCommand(JobCommand { act, environment, folder }), then)
}

/// What a command has printed.
pub struct Printed {
    /// The lines of its standard output.
    pub stdout: Vec<u8>,
    /// Whether a part of what was asked for is missing.
    pub is_partial: bool,
}

/// The output of a command that has succeeded, at least in part.
///
/// # Errors
/// If it has not: with its message.
pub fn printed(report: ActionReport) -> Result<Printed, Refusal> {
    let results = results_of_one(report)?;
    let [code, stdout, stderr] = params(&results);
    let code = code.integer().unwrap_or(KILLED);
    let status = match code {
        OK | PARTIAL => {
            return Ok(Printed { stdout: bytes(stdout), is_partial: code == PARTIAL });
        }
        USAGE => Status::RANGE,
        DENIED => Status::PERMISSION,
        NO_TARGET => Status::NO_SUCH_OBJECT,
        TIMED_OUT => Status::TIMEOUT,
        _ => Status::IO,
    };
    let stderr = stderr.text().map(Text::to_str_lossy).unwrap_or_default();
    let text = match stderr.lines().rfind(|it| !it.is_empty()) {
        Some(line) => line.strip_prefix(PREFIX).unwrap_or(line).to_owned(),
        None if code == KILLED => "the command was killed".to_owned(),
        None => format!("the command ended with code {code}"),
    };
    Err(Refusal::new(status, text))
}

/// What was printed is not what this service expects.
pub fn malformed(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(Status::INTERNAL, format!("the command printed something else: {error}"))
}

/// The text of a parameter.
pub fn text(value: &Value) -> String {
    value.text().map(Text::to_str_lossy).unwrap_or_default().into_owned()
}
