//! Actions on a process from the screen: send a signal, or set the nice value.
//!
//! The process is opened as a pidfd and its start time is checked before the action, so that
//! another process with a reused pid is not affected. The kernel checks the permission.

use monitor_backends::pidfd_watch;
use monitor_model::{Identity, Signal};
use std::io::ErrorKind;

/// An action on a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessAction {
    /// The process.
    pub id: Identity,
    /// Its name.
    pub name: String,
    /// The action.
    pub kind: ActionKind,
}

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// Send a signal, by number.
    Signal(u32),
    /// Set the nice value.
    Nice(i32),
}

impl ProcessAction {
    /// The action in words, for the confirmation.
    pub fn question(&self) -> String {
        let Self { id, name, kind } = self;
        let verb = match *kind {
            ActionKind::Signal(number) => {
                let name = Signal { number, code: 0, thread: None }.name();
                format!("send {}", name.unwrap_or_else(|| format!("signal {number}")))
            }
            ActionKind::Nice(value) => format!("give nice value {value}"),
        };
        format!("{verb} to process {} ({name})", id.pid.0)
    }

    /// Performs the action, and returns a message.
    ///
    /// # Errors
    ///
    /// When the process has ended or the permission is missing.
    pub fn perform(&self) -> Result<String, String> {
        let (pid, name) = (self.id.pid.0, &self.name);
        let gone = || format!("process {pid} ({name}) has ended: nothing was done");
        let held = pidfd_watch::open(self.id).ok_or_else(gone)?;
        let done = match self.kind {
            ActionKind::Signal(number) => held.signal(number),
            ActionKind::Nice(value) => held.renice(self.id.pid, value),
        };
        match done {
            Ok(()) => Ok(format!("done: {}", self.question())),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(format!(
                "cannot {}: permission denied; run this as the user of the process or as root",
                self.question()
            )),
            Err(error) if is_gone(&error) => Err(gone()),
            Err(error) => Err(format!("cannot {}: {error}", self.question())),
        }
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    // ESRCH has no `ErrorKind`.
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backends::procfs;
    use monitor_model::id::{Ns, Pid};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    fn child() -> (Child, ProcessAction) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let pid = Pid(child.id());
        let id = Identity { pid, start: procfs::start_time(pid).expect("a running process") };
        (child, ProcessAction { id, name: "cat".into(), kind: ActionKind::Signal(15) })
    }

    #[test]
    fn a_signal_is_sent_to_the_process() {
        let (mut child, act) = child();
        assert!(act.perform().expect("permission").starts_with("done: send SIGTERM to process"));
        assert_eq!(child.wait().expect("it ends").signal(), Some(15));
    }

    #[test]
    fn a_process_with_a_reused_pid_is_not_affected() {
        let (mut child, mut act) = child();
        act.id.start = Ns(act.id.start.0 - 1_000_000_000);
        let why = act.perform().expect_err("another process");
        assert!(why.ends_with("has ended: nothing was done"), "{why}");
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
    }

    #[test]
    fn a_nice_value_is_set() {
        let (mut child, act) = child();
        let act = ProcessAction { kind: ActionKind::Nice(7), ..act };
        act.perform().expect("lower priority is free");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("stat");
        let after = stat.rsplit_once(')').expect("a name").1;
        assert_eq!(after.split_whitespace().nth(16), Some("7"));
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
    }
}
