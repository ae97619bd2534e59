//! Waits for stops of traced threads, until a time, and as long as the parent of the tracer runs.
//!
//! In: that process, if there is one, which is the parent of the tracer. Out: wait statuses. The
//! kernel announces each by `SIGCHLD`, which is blocked and read from a descriptor, beside that of
//! the parent.

use monitor_model::Pid;
use monitor_sys::{pidfd::PidFd, ptrace, spawn};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::process::Command;
use std::time::Instant;

/// What a tracer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopEvent {
    /// A thread has this wait status.
    Status(i32, i32),
    /// The time has come.
    TimedOut,
    /// The parent has ended.
    Orphaned,
}

/// The stops and ends of what the caller traces, and the end of its parent.
#[derive(Debug)]
pub struct StopEvents {
    signals: SignalFd,
    parent: Parent,
    /// The signals that were blocked before.
    mask: SigSet,
}

/// The process that wants the trace.
#[derive(Debug)]
enum Parent {
    /// None does: the trace goes on without it.
    Unwatched,
    Running(PidFd),
    /// It had ended before it was watched.
    Ended,
}

impl StopEvents {
    /// Blocks `SIGCHLD` in the calling thread, which must be the only one, and in those that it
    /// starts. With a parent, its end is an event.
    ///
    /// # Errors
    /// If no descriptor is free, or the parent has ended.
    pub fn watch(parent: Option<Pid>) -> io::Result<Self> {
        let child: SigSet = [Signal::SIGCHLD].into_iter().collect();
        let mask = child.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let signals = SignalFd::with_flags(&child, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let parent = match parent.map(PidFd::open_parent).transpose()? {
            None => Parent::Unwatched,
            Some(Some(running)) => Parent::Running(running),
            Some(None) => Parent::Ended,
        };
        Ok(Self { signals, parent, mask })
    }

    /// Has a program start with the signals blocked that were before.
    pub fn restore_in(&self, command: &mut Command) {
        spawn::with_signal_mask(command, self.mask);
    }

    /// Waits for the next one; at most until a time.
    ///
    /// # Errors
    /// If the caller traces nothing and has no child.
    pub fn next(&self, until: Option<Instant>) -> io::Result<StopEvent> {
        loop {
            if let Some((tid, status)) = ptrace::poll_any()? {
                return Ok(StopEvent::Status(tid, status));
            }
            let parent = match &self.parent {
                Parent::Unwatched => None,
                Parent::Running(running) => Some(running),
                Parent::Ended => return Ok(StopEvent::Orphaned),
            };
            let left = until.map(|it| it.saturating_duration_since(Instant::now()));
            let limit = left.and_then(|it| Timespec::try_from(it).ok());
            let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
            fds.extend(parent.map(|it| PollFd::new(it, PollFlags::IN)));
            match poll(&mut fds, limit.as_ref()) {
                Ok(0) => return Ok(StopEvent::TimedOut),
                Ok(_) if fds.get(1).is_some_and(|it| !it.revents().is_empty()) => {
                    return Ok(StopEvent::Orphaned);
                }
                Ok(_) => while self.signals.read_signal()?.is_some() {},
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
