//! The processes of a tool that run beside the ranks of a job.
//!
//! In: a command of the shell, and the ranks. Out: one process for all ranks, or one for each, with
//! the ranks in its environment; what it writes, line by line, with the rank before it. Each is in
//! a process group of its own, and is killed when the thread ends that started it.

use super::target::JobTarget;
use crate::cli::exit::Failure;
use crate::cli::output;
use monitor_control::grouped_process::{GroupedProcess, OutputPlace};
use monitor_control::tool_daemon::{DaemonPlace, DaemonsPer, SHELL};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take to end after SIGTERM, and its descendants to close its output.
const END: Duration = Duration::from_secs(5);

/// A process of the tool.
#[derive(Debug)]
struct ToolDaemon {
    /// The rank that it is beside, if it is not beside all.
    rank: Option<u32>,
    process: GroupedProcess,
}

impl ToolDaemon {
    fn start(command: &OsStr, place: &DaemonPlace<'_>) -> io::Result<Self> {
        let mut shell = Command::new(SHELL);
        shell.arg("-c").arg(command).stdin(Stdio::null());
        let cgroups = place.prepare(&mut shell);
        let rank = place.rank();
        let prefix = rank.map(|rank| format!("[{rank}] "));
        let place = OutputPlace { prefix, is_passed_on: true, log: None };
        let process = GroupedProcess::start(&mut shell, place)?;
        if let Some(why) = cgroups.missed(process.pid()) {
            output::notice(&why);
        }
        Ok(Self { rank, process })
    }

    /// Readable at its end; none if it has ended.
    fn running(&mut self) -> Option<BorrowedFd<'_>> {
        self.process.poll().is_none().then(|| self.process.as_fd())
    }
}

/// The processes of the tool beside the ranks of a job.
#[derive(Debug)]
pub struct ToolDaemons(Vec<ToolDaemon>);

impl ToolDaemons {
    /// Starts one beside all ranks that the user names, or one beside each.
    ///
    /// # Errors
    /// If the shell cannot be executed, or no descriptor is free.
    pub fn start(command: &OsStr, per: &str, target: &JobTarget) -> Result<Self, Failure> {
        let per = DaemonsPer::from_name(per).unwrap_or(DaemonsPer::Process);
        let (job, ranks) = (&target.job, target.programs());
        let places = DaemonPlace::all((&job.id, job.runtime), &ranks, per);
        let all = places.iter().map(|it| ToolDaemon::start(command, it)).collect::<Result<_, _>>();
        let failed = |error| Failure::failed(format!("cannot run {SHELL}: {error}"));
        Ok(Self(all.map_err(failed)?))
    }

    /// Waits until all have ended; whether one of these is readable before.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn wait(&mut self, others: &[BorrowedFd<'_>]) -> Result<bool, Failure> {
        loop {
            let running = self.0.iter_mut().filter_map(ToolDaemon::running);
            let running: Vec<BorrowedFd<'_>> = running.collect();
            if running.is_empty() {
                return Ok(false);
            }
            if is_readable_before(others, &running)? {
                return Ok(true);
            }
        }
    }

    /// Ends those that run, SIGKILL after SIGTERM, and writes what all have written; how each
    /// ended.
    pub fn end(mut self) -> Vec<(Option<u32>, Option<ExitStatus>)> {
        let until = Instant::now() + END;
        for ToolDaemon { process, .. } in &mut self.0 {
            if process.poll().is_none() {
                process.signal(Signal::TERM);
            }
        }
        for ToolDaemon { process, .. } in &mut self.0 {
            if process.poll().is_none() {
                // Its output is closed at its end, unless a descendant has it.
                process.finish_output(until);
            }
            if process.poll().is_none() {
                process.kill();
            }
            process.finish_output(until);
        }
        self.0.into_iter().map(|it| (it.rank, it.process.status())).collect()
    }
}

/// Waits until one of two lists has a readable descriptor; whether the first has.
///
/// # Errors
/// If the kernel refuses to wait.
pub fn is_readable_before(
    first: &[BorrowedFd<'_>],
    second: &[BorrowedFd<'_>],
) -> Result<bool, Failure> {
    let mut fds: Vec<PollFd<'_>> =
        first.iter().chain(second).map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    match poll(&mut fds, None) {
        Ok(_) => Ok(fds[..first.len()].iter().any(|it| !it.revents().is_empty())),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(Failure::failed(format!("poll: {error}"))),
    }
}

/// How a daemon ended, for a notice.
pub fn ended_text(rank: Option<u32>, status: Option<ExitStatus>) -> String {
    let which = rank.map(|rank| format!(" of rank {rank}")).unwrap_or_default();
    let how = status.map_or_else(|| "in an unknown way".to_owned(), |it| format!("with {it}"));
    format!("the daemon{which} ended {how}")
}
