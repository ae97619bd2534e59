//! A process in a group of its own, which ends with the thread that starts it.
//!
//! In: a command, and where its output goes. Out: the process; what it writes; how it ended. Ranks
//! without a launcher, and daemons of tools beside ranks, are such processes.

pub use super::forwarded_output::OutputPlace;
use super::forwarded_output::forward;
use monitor_model::Pid;
use monitor_sys::pidfd::PidFd;
use monitor_sys::spawn;
use rustix::process::{Pid as RawPid, Signal, kill_process_group};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// A process.
#[derive(Debug)]
pub struct GroupedProcess {
    child: Child,
    pidfd: PidFd,
    status: Option<ExitStatus>,
    /// Closed when all of its output is written.
    written: Receiver<()>,
}

impl GroupedProcess {
    /// Starts it.
    ///
    /// # Errors
    /// If the program cannot be executed, or no descriptor is free.
    pub fn start(command: &mut Command, output: OutputPlace) -> io::Result<Self> {
        let mut it = Self::start_unread(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let (writing, written) = channel();
        forward(it.child.stderr.take(), output.of_errors(), io::stderr, writing.clone());
        forward(it.child.stdout.take(), output, io::stdout, writing);
        it.written = written;
        Ok(it)
    }

    /// Starts it with the streams of the command.
    ///
    /// # Errors
    /// As [`GroupedProcess::start`].
    pub fn start_unread(command: &mut Command) -> io::Result<Self> {
        command.process_group(0);
        spawn::default_signals(command);
        spawn::end_with_parent(command);
        let child = command.spawn()?;
        let pidfd = PidFd::open(Pid(child.id()))?;
        Ok(Self { child, pidfd, status: None, written: channel().1 })
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Its standard input, if it is a pipe.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// How it has ended, if it has.
    pub fn poll(&mut self) -> Option<ExitStatus> {
        // It is a child that nothing else waits for.
        self.status = self.status.or_else(|| self.child.try_wait().ok().flatten());
        self.status
    }

    /// Whether it, or a process of its group, runs. Until none does its end is not reaped, so that
    /// the number of the group is not given to another one.
    pub fn group_runs(&mut self) -> bool {
        if self.status.is_some() {
            return false;
        }
        if !self.pidfd.has_ended() || has_others(self.child.id()) {
            return true;
        }
        let _ended = self.poll();
        false
    }

    /// How it had ended at the last [`GroupedProcess::poll`].
    pub const fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Sends a signal to it and its descendants, unless its end was seen: its group is then there.
    pub fn signal(&self, signal: Signal) {
        let group = i32::try_from(self.child.id()).ok().and_then(RawPid::from_raw);
        if self.status.is_none() {
            // All of them have ended, if this fails.
            let _sent = group.map(|group| kill_process_group(group, signal));
        }
    }

    /// Kills it and its descendants, and waits for its end.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.status = self.status.or_else(|| self.child.wait().ok());
    }

    /// Waits until its output is written. A descendant may keep it open for longer.
    pub fn finish_output(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let _closed = self.written.recv_timeout(left);
    }
}

/// Whether a process besides its leader runs in a group.
fn has_others(group: u32) -> bool {
    let group = i32::try_from(group).unwrap_or(-1);
    let all = procfs::process::all_processes().into_iter().flatten().flatten();
    // One that has ended meanwhile is in no group.
    let mut of_group = all.filter_map(|it| it.stat().ok()).filter(|it| it.pgrp == group);
    of_group.any(|it| it.pid != group && it.state != 'Z')
}

/// Readable at its end.
impl AsFd for GroupedProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
