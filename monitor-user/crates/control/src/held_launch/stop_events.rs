//! Waits for stops of traced threads, until a time, and as long as the parent of the tracer runs.
//!
//! In: the process that wants the trace. Out: wait statuses. The kernel announces each by
//! `SIGCHLD`, which is blocked and read from a descriptor, beside that of the parent.

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
    /// None if it had ended before.
    parent: Option<PidFd>,
    /// The signals that were blocked before.
    mask: SigSet,
}

impl StopEvents {
    /// Blocks `SIGCHLD` in the calling thread, which must be the only one, and in those that it
    /// starts.
    ///
    /// # Errors
    /// If no descriptor is free, or the parent has ended.
    pub fn watch(parent: Pid) -> io::Result<Self> {
        let child: SigSet = [Signal::SIGCHLD].into_iter().collect();
        let mask = child.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let signals = SignalFd::with_flags(&child, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { signals, parent: PidFd::open_parent(parent)?, mask })
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
            let Some(parent) = &self.parent else { return Ok(StopEvent::Orphaned) };
            let left = until.map(|it| it.saturating_duration_since(Instant::now()));
            let limit = left.and_then(|it| Timespec::try_from(it).ok());
            let mut fds =
                [PollFd::new(&self.signals, PollFlags::IN), PollFd::new(parent, PollFlags::IN)];
            match poll(&mut fds, limit.as_ref()) {
                Ok(0) => return Ok(StopEvent::TimedOut),
                Ok(_) if !fds[1].revents().is_empty() => return Ok(StopEvent::Orphaned),
                Ok(_) => while self.signals.read_signal()?.is_some() {},
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
