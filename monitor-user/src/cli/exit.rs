//! Exit codes: one list for the commands, the help text and the manual page.
//!
//! In: errors of the other crates. Out: a one-line message and a code. Nothing is printed here.

/// How the program ends. The discriminant is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything requested was delivered.
    Ok = 0,
    /// Any failure without a code of its own.
    Failed = 1,
    /// Unknown command, option, field, format or backend.
    Usage = 2,
    /// `doctor` found a capability that works only in a degraded way.
    Degraded = 3,
    /// Part of the request is missing; the rest was delivered.
    Partial = 4,
    /// A privilege is missing.
    Denied = 5,
    /// No such process, or no such job.
    NoTarget = 6,
    /// The daemon does not answer.
    NoDaemon = 7,
    /// `when` found none of the functions in the processes.
    NothingWatched = 8,
    /// `conformance` found a sentence of the specification that does not hold.
    Nonconforming = 9,
    /// Timed out.
    TimedOut = 124,
    /// Interrupted by the user.
    Interrupted = 130,
}

/// The list as help and manual print it.
pub const HELP: &str = "\
Exit codes:
  0    success: everything requested was delivered
  1    failure
  2    usage: an unknown command, option, field, format or backend
  3    degraded: doctor found a capability that does not work fully
  4    partial: part of the request is missing, the rest was delivered
  5    not permitted
  6    no such process or job
  7    the daemon does not answer
  8    when found none of the functions: nothing was watched
  9    conformance found a sentence that does not hold
  124  timed out
  130  interrupted";

/// An error that ends the program: a message of one line and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is wrong, why, and what to do.
    pub message: String,
    /// The exit code.
    pub exit: Exit,
}

impl Failure {
    /// A failure with `Exit::Usage`.
    pub fn usage(message: impl ToString) -> Self {
        Self { message: message.to_string(), exit: Exit::Usage }
    }

    /// A failure with `Exit::Failed`.
    pub fn failed(message: impl ToString) -> Self {
        Self { message: message.to_string(), exit: Exit::Failed }
    }
}

impl From<monitor_backend::Error> for Failure {
    fn from(error: monitor_backend::Error) -> Self {
        let (exit, advice) = match error {
            monitor_backend::Error::Denied { .. } => (Exit::Denied, "; run it as root"),
            _ => (Exit::Failed, ""),
        };
        Self { message: format!("{error}{advice}"), exit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_help() {
        for exit in [
            Exit::Ok,
            Exit::Failed,
            Exit::Usage,
            Exit::Degraded,
            Exit::Partial,
            Exit::Denied,
            Exit::NoTarget,
            Exit::NoDaemon,
            Exit::NothingWatched,
            Exit::Nonconforming,
            Exit::TimedOut,
            Exit::Interrupted,
        ] {
            let start = format!("\n  {:<5}", exit as u8);
            assert!(HELP.contains(&start), "{exit:?}");
        }
    }
}
