//! Starts a launcher of parallel jobs, and holds its ranks before their first instruction.
//!
//! ```text
//!  launcher -> proxies -> exec with a rank in the environment: held by the tracer
//!  when all ranks of the node are held: SIGSTOP to each, and nothing is traced any longer
//! ```
//!
//! In: a command, and what makes a process a rank. Out: the ranks, stopped by a signal. Until then
//! the calling thread traces the launcher and its descendants; if it is killed, the kernel detaches
//! all of them, and the job runs. Needs no right but that to trace own children.

use crate::ControlError;
use crate::deadline::DeadlineWait;
use crate::process_ref::{ProcessRef, raw_pid};
use crate::start::stop_at_exec;
use monitor_model::{Identity, Pid};
use monitor_sys::{pidfd, ptrace, spawn};
use procfs::process::Process;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// How long the launcher may take to execute its program.
const START: Duration = Duration::from_secs(10);

/// A process at its exec, as a caller sees it.
#[derive(Debug)]
pub struct Executed {
    /// The file that it executes, if readable.
    pub program: Option<PathBuf>,
    /// Its environment, as `/proc/<pid>/environ` has it.
    pub environment: Vec<u8>,
}

/// The rank that a process begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunRank {
    /// Its number.
    pub rank: u32,
    /// Number of the ranks that the runtime starts on this node, if the environment has it.
    pub local_size: Option<usize>,
}

/// Decides whether a process that executes a program begins a rank that is held.
pub type IsRank<'r> = dyn Fn(&Executed) -> Option<BegunRank> + 'r;

/// How a launch ended.
#[derive(Debug)]
pub enum LaunchEnd {
    /// The ranks of the node are stopped, by number, and the launcher runs.
    Held(BTreeMap<u32, Identity>),
    /// The launcher ended before; those of its descendants that were held run.
    Ended(ExitStatus),
}

/// Starts the launcher, and returns when its ranks are stopped or it has ended. Call it on a thread
/// of its own, and end the thread afterwards: what it traces is detached then. `started` gets the
/// process of the launcher.
///
/// # Errors
/// If the program cannot be executed, or not be traced.
pub fn launch_held(
    command: &mut Command,
    is_rank: &IsRank<'_>,
    started: &mut dyn FnMut(Pid),
) -> Result<(Child, LaunchEnd), LaunchError> {
    spawn::trace_me(command);
    let mut child = command.spawn().map_err(LaunchError::NotStarted)?;
    let pid = Pid(child.id());
    started(pid);
    if let Err(why) = begin(pid) {
        // It has executed nothing, and would stay stopped.
        let _ended = child.kill().and_then(|()| child.wait());
        return Err(why.into());
    }
    let launcher = raw_pid(pid);
    let end = Launch { launcher, held: BTreeMap::new(), expected: None, is_rank }.run()?;
    Ok((child, end))
}

/// Replaces the trace that began before the exec: the kernel reports the children of a thread to
/// one that has seized it.
fn begin(launcher: Pid) -> Result<(), ControlError> {
    stop_at_exec(raw_pid(launcher), &mut DeadlineWait::new(START, None))?;
    let traced = ptrace::seize(raw_pid(launcher));
    traced.map_err(|error| ControlError::from_io("PTRACE_SEIZE", &error))?;
    ProcessRef::open_current(launcher)?.continue_stopped()
}

/// Why there is no launch.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The program cannot be executed.
    #[error(transparent)]
    NotStarted(std::io::Error),
    /// It cannot be traced.
    #[error(transparent)]
    Control(#[from] ControlError),
}

struct Launch<'r> {
    launcher: i32,
    /// Ranks that wait in the stop at their exec.
    held: BTreeMap<u32, i32>,
    expected: Option<usize>,
    is_rank: &'r IsRank<'r>,
}

impl Launch<'_> {
    fn run(&mut self) -> Result<LaunchEnd, ControlError> {
        loop {
            let waited = ptrace::wait_any();
            let (tid, status) = waited.map_err(|error| ControlError::from_io("wait", &error))?;
            if status & 0xff != 0x7f {
                self.held.retain(|_, pid| *pid != tid);
                if tid == self.launcher {
                    return Ok(LaunchEnd::Ended(exit_status(status)));
                }
                continue;
            }
            if !self.handle_stop(tid, status) {
                continue;
            }
            if self.expected.is_some_and(|it| self.held.len() >= it) {
                return Ok(LaunchEnd::Held(self.stop_held()));
            }
        }
    }

    /// Handles a stop; whether it was that of a rank, which stays in it.
    fn handle_stop(&mut self, tid: i32, status: i32) -> bool {
        let signal = status >> 8 & 0xff;
        let (mode, signal) = match status >> 16 {
            ptrace::EVENT_EXEC if self.begins_rank(tid) => return true,
            // A delivery of a signal.
            0 => (ptrace::ResumeMode::Continue, signal),
            // A stop by a signal, which lasts until SIGCONT.
            ptrace::EVENT_STOP if signal != Signal::TRAP.as_raw() => {
                (ptrace::ResumeMode::Listen, 0)
            }
            _ => (ptrace::ResumeMode::Continue, 0),
        };
        // One that was killed meanwhile reports its end next.
        let _killed = ptrace::resume(tid, mode, signal);
        false
    }

    fn begins_rank(&mut self, pid: i32) -> bool {
        let Some(begun) = executed(pid).and_then(|it| (self.is_rank)(&it)) else { return false };
        if self.held.contains_key(&begun.rank) {
            return false;
        }
        self.held.insert(begun.rank, pid);
        // A runtime that does not name it: this rank is held, and those that follow are not.
        self.expected = begun.local_size.or(self.expected).or(Some(1));
        true
    }

    /// Replaces the stops at exec by stops by a signal, which outlast the tracer.
    fn stop_held(&mut self) -> BTreeMap<u32, Identity> {
        let mut ranks = BTreeMap::new();
        for (rank, pid) in std::mem::take(&mut self.held) {
            let id = u32::try_from(pid).ok().map(|pid| ProcessRef::open_current(Pid(pid)));
            // It is pending when the thread is detached, and stops it before its program runs.
            let sent = pidfd::tgkill(pid, pid, Signal::STOP.as_raw());
            if ptrace::detach(pid, 0).is_ok()
                && sent.is_ok()
                && let Some(Ok(process)) = id
            {
                ranks.insert(rank, process.id);
            }
        }
        ranks
    }
}

fn executed(pid: i32) -> Option<Executed> {
    let process = Process::new(pid).ok()?;
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    Some(Executed { program: process.exe().ok(), environment })
}

fn exit_status(status: i32) -> ExitStatus {
    std::os::unix::process::ExitStatusExt::from_raw(status)
}
