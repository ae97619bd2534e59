//! What can be done to a process from the screen: a signal, or another nice value.
//!
//! The process is held by a descriptor and looked at before anything is done to it, so that one
//! that has its number by now is left alone. The kernel decides whether this user may.

use monitor_backends::hold;
use monitor_model::event::Signal;
use monitor_model::id::Identity;
use std::io::ErrorKind;

/// Something to be done to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// To whom.
    pub id: Identity,
    /// What it is called.
    pub name: String,
    /// What.
    pub what: What,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Send this signal.
    Signal(u32),
    /// Give it this nice value.
    Nice(i32),
}

impl Act {
    /// The question before it, without its question mark.
    pub fn question(&self) -> String {
        let Self { id, name, .. } = self;
        format!("{} to process {} ({name})", self.deed(), id.pid.0)
    }

    fn deed(&self) -> String {
        match self.what {
            What::Signal(number) => {
                let name = Signal { number, code: 0, thread: None }.name();
                format!("send {}", name.unwrap_or_else(|| format!("signal {number}")))
            }
            What::Nice(value) => format!("give nice value {value}"),
        }
    }

    /// Does it, and tells what was done or why not.
    pub fn perform(&self) -> Result<String, String> {
        let (pid, name) = (self.id.pid.0, &self.name);
        let gone = || format!("process {pid} ({name}) is not there any more: nothing was done");
        let held = hold::alone(self.id).ok_or_else(gone)?;
        let done = match self.what {
            What::Signal(number) => held.signal(number),
            What::Nice(value) => held.renice(self.id.pid, value),
        };
        match done {
            Ok(()) => Ok(format!("done: {}", self.question())),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(format!(
                "cannot {}: {name} is not yours; run this as its user or as root",
                self.question()
            )),
            Err(error) if is_gone(&error) => Err(gone()),
            Err(error) => Err(format!("cannot {}: {error}", self.question())),
        }
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    // ESRCH has no kind of its own.
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backends::procfs;
    use monitor_model::id::{Ns, Pid};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};

    fn child() -> (Child, Act) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let pid = Pid(child.id());
        let id = Identity { pid, start: procfs::started(pid).expect("it lives") };
        (child, Act { id, name: "cat".into(), what: What::Signal(15) })
    }

    #[test]
    fn a_signal_goes_to_the_process_that_was_meant() {
        let (mut child, act) = child();
        assert!(act.perform().expect("it may").starts_with("done: send SIGTERM to process"));
        assert_eq!(child.wait().expect("it ends").signal(), Some(15));
    }

    #[test]
    fn who_has_the_number_of_another_is_left_alone() {
        let (mut child, mut act) = child();
        act.id.start = Ns(act.id.start.0 - 1_000_000_000);
        let why = act.perform().expect_err("it is not the one");
        assert!(why.ends_with("is not there any more: nothing was done"), "{why}");
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
    }

    #[test]
    fn a_nice_value_is_set() {
        let (mut child, act) = child();
        let act = Act { what: What::Nice(7), ..act };
        act.perform().expect("lower priority is free");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("stat");
        let after = stat.rsplit_once(')').expect("a name").1;
        assert_eq!(after.split_whitespace().nth(16), Some("7"));
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends").success());
    }
}
