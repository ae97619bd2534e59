//! CRIU as a program: how it is started, and what of its words is told on.
//!
//! In: its words. Out: a process of it, or why there is none; how it ended. It must not have our
//! blocked signals, because it waits for its own children.

use super::super::trouble::Trouble;
use super::folder::cannot;
use monitor_sys::{files, spawn};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked whether it has ended.
pub const LOOK: Duration = Duration::from_millis(10);

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
    let told = told.map_err(|error| cannot("writing what CRIU says in", folder, &error))?;
    // Ours until it starts, and its own then, for as long as it runs; some file systems have none.
    let _without = told.try_lock();
    let mut command = command();
    let _command = command.args(words).arg("--images-dir").arg(folder);
    // A process in a session of somebody else is restored in that of the hand.
    let _command = command.args(["--shell-job", "-v1"]).stdout(Stdio::null()).stderr(told);
    command.spawn().map_err(|error| not_started(&error))
}

/// Whether one that somebody else has begun works in this folder still.
pub fn is_at(folder: &Path) -> bool {
    let told = File::options().write(true).open(folder.join(TOLD));
    let Ok(told) = told else { return false };
    matches!(told.try_lock(), Err(TryLockError::WouldBlock))
}

/// Whether it went well, once it is over. What is late is ended.
pub fn ended(criu: &mut Child, is_late: bool) -> Option<bool> {
    match criu.try_wait() {
        Ok(Some(status)) => Some(status.success()),
        Ok(None) if !is_late => None,
        Ok(None) | Err(_) => {
            let _ended = criu.kill();
            let _status = criu.wait();
            Some(false)
        }
    }
}

/// The same, waited for.
pub fn wait(criu: &mut Child, until: Instant) -> bool {
    loop {
        match ended(criu, Instant::now() >= until) {
            Some(is_done) => return is_done,
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Why nothing came of what it did in this folder.
pub fn failed(what: &str, folder: &Path, is_late: bool) -> Trouble {
    if is_late {
        return Trouble::Late(format!("CRIU's work in {}", folder.display()));
    }
    Trouble::Unsupported(format!("it could not be {what}: CRIU: {}", told(folder)))
}

/// What it said that it could not do, of what it did in this folder.
fn told(folder: &Path) -> String {
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
