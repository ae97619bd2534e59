//! Exit codes: one list behind every way to end, the help text and the manual page.

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All that was asked for was delivered.
    Ok = 0,
    /// It failed.
    Failed = 1,
    /// It was asked for something that does not exist.
    Usage = 2,
    /// `doctor` found something that is not served as well as it could be.
    Degraded = 3,
    /// Something asked for is missing; the rest was delivered.
    Partial = 4,
    /// A privilege is missing.
    Denied = 5,
    /// No such process.
    NoTarget = 6,
    /// The daemon does not answer.
    NoDaemon = 7,
    /// It took too long.
    TimedOut = 124,
    /// Interrupted by the user.
    Interrupted = 130,
}

/// The list, as help and manual print it.
pub const HELP: &str = "\
Exit codes:
  0    all that was asked for was delivered
  1    it failed
  2    usage: an unknown command, option, field, format or backend
  3    doctor found something that is not served as well as it could be
  4    partial: something asked for is missing, the rest was delivered
  5    not permitted
  6    no such process
  7    the daemon does not answer
  124  it took too long
  130  interrupted";

/// Why the program ends before its work is done: one line, and the exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is wrong, why, what to do.
    pub message: String,
    /// The code that goes with it.
    pub exit: Exit,
}

impl Failure {
    /// It was asked for something that does not exist.
    pub fn usage(message: impl ToString) -> Self {
        Self { message: message.to_string(), exit: Exit::Usage }
    }

    /// It failed.
    pub fn failed(message: impl ToString) -> Self {
        Self { message: message.to_string(), exit: Exit::Failed }
    }
}

impl From<monitor_backend::Error> for Failure {
    fn from(error: monitor_backend::Error) -> Self {
        let exit = match error {
            monitor_backend::Error::Denied { .. } => Exit::Denied,
            _ => Exit::Failed,
        };
        Self { message: error.to_string(), exit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_in_the_help() {
        for exit in [
            Exit::Ok,
            Exit::Failed,
            Exit::Usage,
            Exit::Degraded,
            Exit::Partial,
            Exit::Denied,
            Exit::NoTarget,
            Exit::NoDaemon,
            Exit::TimedOut,
            Exit::Interrupted,
        ] {
            let start = format!("\n  {:<5}", exit as u8);
            assert!(HELP.contains(&start), "{exit:?}");
        }
    }
}
