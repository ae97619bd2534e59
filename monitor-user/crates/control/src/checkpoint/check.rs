//! Whether CRIU is installed and works on this kernel, by `criu check`.
//!
//! In: a deadline. Out: its version, or why it does not work. CRIU may be installed at any time, so
//! the result is cached only briefly, for requests on many processes at once.

use super::criu;
use crate::{ControlError, deadline::DeadlineWait};
use std::io::Read as _;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a result stays valid.
const CACHE_TIME: Duration = Duration::from_secs(2);

type CheckResult = Result<String, ControlError>;

/// The last result, and when it was obtained.
#[derive(Default)]
pub struct CriuCheck(Option<(Instant, CheckResult)>);

impl CriuCheck {
    /// The version of CRIU, if it works on this node.
    pub fn version(&mut self, deadline: &mut DeadlineWait<'_>) -> CheckResult {
        match &self.0 {
            Some((at, result)) if at.elapsed() < CACHE_TIME => result.clone(),
            _ => {
                let result = version(deadline);
                self.0 = Some((Instant::now(), result.clone()));
                result
            }
        }
    }
}

fn version(deadline: &mut DeadlineWait<'_>) -> CheckResult {
    let (is_there, output) = run("--version", deadline)?;
    let version = output.lines().find_map(|line| line.strip_prefix("Version: "));
    let version = version.filter(|_| is_there).unwrap_or("of an unknown version").to_owned();
    let (passes, output) = run("check", deadline)?;
    if passes {
        return Ok(version);
    }
    let why = criu::first_error(&output);
    Err(ControlError::Unsupported(format!(
        "CRIU {version} does not work on this kernel: {why}; a newer one may"
    )))
}

/// Runs CRIU; whether it succeeded, and its output.
fn run(argument: &str, deadline: &mut DeadlineWait<'_>) -> Result<(bool, String), ControlError> {
    let mut command = criu::command();
    let command = command.arg(argument).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| criu::not_started(&error))?;
    let status = wait(&mut child, deadline)?;
    // A few lines, which fit into the pipes.
    let pipes = [child.stdout.take().map(read), child.stderr.take().map(read)];
    Ok((status.success(), pipes.into_iter().flatten().collect()))
}

fn wait(child: &mut Child, deadline: &mut DeadlineWait<'_>) -> Result<ExitStatus, ControlError> {
    loop {
        let ended =
            child.try_wait().map_err(|error| ControlError::from_io("waiting for criu", &error))?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if let Err(error) = deadline.wait("waiting for criu check") {
            let _ended = child.kill();
            let _status = child.wait();
            return Err(error);
        }
    }
}

fn read(mut pipe: impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    let _cut = pipe.by_ref().take(1 << 16).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
