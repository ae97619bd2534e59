//! CRIU as a program: how it is started, and what of its words is told on.
//!
//! In: its words. Out: a process of it, or why there is none. It must not have our blocked
//! signals, because it waits for its own children.

use super::super::trouble::Trouble;
use crate::sys::{files, spawn};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "criu";
/// What it says while it works: errors alone, into the folder of the files that it works on.
const TOLD: &str = "told";

/// Its command, without words.
pub fn command() -> Command {
    let mut command = Command::new(PROGRAM);
    let _command = command.stdin(Stdio::null());
    files::leave_limit(&mut command);
    spawn::unblocked(&mut command);
    command
}

/// Begins what these words say, with the files in this folder.
pub fn begin(words: &[&str], folder: &Path) -> Result<Child, Trouble> {
    let told = File::create(folder.join(TOLD));
    let told = told.map_err(|error| Trouble::of("writing what CRIU says", &error))?;
    let mut command = command();
    let _command = command.args(words).arg("--images-dir").arg(folder);
    // A process in a session of somebody else is restored in that of the hand.
    let _command = command.args(["--shell-job", "-v1"]).stdout(Stdio::null()).stderr(told);
    command.spawn().map_err(|error| not_started(&error))
}

/// What it said that it could not do, of what it did in this folder.
pub fn told(folder: &Path) -> String {
    reason(&std::fs::read_to_string(folder.join(TOLD)).unwrap_or_default()).to_owned()
}

/// The first of its errors is what the others come of; but that a program which it has tried is
/// not there, or does not do something, is none.
pub fn reason(told: &str) -> &str {
    let is_one = |line: &&str| line.starts_with("Error") && !line.contains("exited, status=");
    told.lines().find(is_one).unwrap_or("it does not say why")
}

/// Why there is no process of it.
pub fn not_started(error: &std::io::Error) -> Trouble {
    match error.kind() {
        ErrorKind::NotFound => {
            Trouble::Unsupported("CRIU is not installed, see https://criu.org".to_owned())
        }
        _ => Trouble::of("starting criu", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_the_reason() {
        let told = "Error (criu/util.c:642): exited, status=1\n\
             Error (criu/b.c:2): y\nError (criu/c.c:3): z\n";
        assert_eq!(reason(told), "Error (criu/b.c:2): y");
        assert_eq!(reason(""), "it does not say why");
    }
}
