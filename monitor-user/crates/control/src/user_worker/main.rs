//! The main loop of a user worker: `monitor user-worker`, started by the daemon.
//!
//! In: requests as frames on standard input. Out: replies and events. It changes to its user before
//! it reads anything and keeps no capability that the user lacks. When the socket closes (the
//! daemon was killed, for example) or a terminating signal arrives, it undoes everything and exits.

use super::frame::{CHUNK, Inbox, frame};
use super::{User, WorkerRole};
use crate::{ControlError, Executor, NumberedRequest, messages::WorkerMessage};
use monitor_model::Pid;
use monitor_sys::{pidfd::PidFd, service_settings};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, Gid, Uid};
use std::io::{self, Read as _, Write as _};
use std::{collections::VecDeque, os::fd::AsFd as _, os::unix::net::UnixStream, time::Instant};

/// The socket is readable or closed.
const READABLE: PollFlags = PollFlags::IN.union(PollFlags::HUP).union(PollFlags::ERR);

/// Most bytes waiting for the daemon, two of the longest frames; beyond it the daemon counts as
/// gone.
const MAX_OUTBOX: usize = 32 << 20;
/// Most address space of a process that reads files, in bytes.
const MAX_READER_MEMORY: u64 = 256 << 20;
/// Signals that end the process. `SIGCHLD` only wakes the loop.
const EXIT_SIGNALS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// Serves requests until the socket closes, then undoes everything.
pub fn run(socket: UnixStream, user: Option<&User>, role: WorkerRole) -> io::Result<()> {
    service_settings::give_up()?;
    if role == WorkerRole::Reader {
        let most = Some(MAX_READER_MEMORY);
        setrlimit(Resource::As, Rlimit { current: most, maximum: most })?;
        // Where memory does not suffice it aborts, which is no reason for a core dump.
        setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    }
    if let Some(user) = user {
        become_user(user)?;
    }
    // Not in the terminal's process group: an interrupt is meant for the client.
    let _already = rustix::process::setsid();
    socket.set_nonblocking(true)?;
    let mut main_loop = MainLoop {
        executor: Executor::with_peer(socket.as_fd().try_clone_to_owned()?, daemon()),
        signals: signals()?,
        inbox: Inbox::default(),
        outbox: VecDeque::new(),
        socket,
    };
    let ended = main_loop.run_loop();
    main_loop.executor.undo();
    // The mark of the undo file: nothing is left to undo. Not a file, there is none.
    let _no_mark = rustix::fs::ftruncate(io::stdout(), 0);
    match ended {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

struct MainLoop {
    socket: UnixStream,
    signals: SignalFd,
    executor: Executor,
    inbox: Inbox,
    /// Bytes that the daemon has not read yet; a blocking write could prevent the undo.
    outbox: VecDeque<u8>,
}

impl MainLoop {
    fn run_loop(&mut self) -> io::Result<()> {
        loop {
            self.flush()?;
            let (has_requests, has_signals) = self.wait()?;
            if has_signals && self.must_exit()? {
                return Ok(());
            }
            if has_requests && !self.receive()? {
                return Ok(());
            }
            while let Some(numbered) = self.inbox.next_message::<NumberedRequest>()? {
                let reply = self.executor.execute(&numbered);
                if matches!(reply, Some(Err(ControlError::WorkerLost))) {
                    return Ok(());
                }
                if let Some(reply) = reply {
                    self.send(&WorkerMessage::Reply(numbered.number, reply))?;
                }
                if self.executor.is_due() {
                    self.poll_executor()?;
                }
            }
            self.poll_executor()?;
        }
    }

    /// Polls the executor and sends its events, and replies that took their time.
    fn poll_executor(&mut self) -> io::Result<()> {
        self.executor.poll();
        for (number, reply) in self.executor.drain_replies() {
            self.send(&WorkerMessage::Reply(number, reply))?;
        }
        for event in self.executor.drain_events() {
            self.send(&WorkerMessage::Event(event))?;
        }
        Ok(())
    }

    /// Waits; returns whether the socket is readable or closed, and whether there are signals.
    fn wait(&self) -> io::Result<(bool, bool)> {
        let next =
            self.executor.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let next = next.and_then(|it| Timespec::try_from(it).ok());
        let write = if self.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let socket = PollFd::new(&self.socket, PollFlags::IN | write);
        let mut fds = [socket, PollFd::new(&self.signals, PollFlags::IN)];
        match poll(&mut fds, next.as_ref()) {
            Ok(_) => Ok((fds[0].revents().intersects(READABLE), !fds[1].revents().is_empty())),
            Err(rustix::io::Errno::INTR) => Ok((false, false)),
            Err(error) => Err(error.into()),
        }
    }

    fn must_exit(&mut self) -> io::Result<bool> {
        while let Some(signal) = self.signals.read_signal()? {
            let number = i32::try_from(signal.ssi_signo).unwrap_or(0);
            if EXIT_SIGNALS.iter().any(|it| *it as i32 == number) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Receives; `false` once the peer has closed.
    fn receive(&mut self) -> io::Result<bool> {
        let mut chunk = vec![0; CHUNK];
        match self.socket.read(&mut chunk) {
            Ok(0) => Ok(false),
            Ok(read) => {
                self.inbox.add(&chunk[..read]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn send(&mut self, message: &WorkerMessage) -> io::Result<()> {
        self.outbox.extend(frame(message)?);
        self.flush()?;
        if self.outbox.len() > MAX_OUTBOX {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    /// Writes as much of the outbox as the socket accepts. Without a reader of replies, the
    /// requests that are left are still executed: they undo something.
    fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            match self.socket.write(self.outbox.as_slices().0) {
                Ok(written) => drop(self.outbox.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.outbox.clear(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A pidfd of the parent. If the daemon has died already, it names a process that lives longer.
fn daemon() -> Option<PidFd> {
    let pid = u32::try_from(rustix::process::getppid()?.as_raw_nonzero().get()).ok()?;
    PidFd::open(Pid(pid)).ok()
}

fn signals() -> io::Result<SignalFd> {
    let mut set: SigSet = EXIT_SIGNALS.into_iter().collect();
    set.add(Signal::SIGCHLD);
    set.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(SignalFd::with_flags(&set, flags)?)
}

/// Changes to a user permanently. The user worker of root keeps root's privileges.
pub(crate) fn become_user(user: &User) -> io::Result<()> {
    let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    if uid == rustix::process::getuid() && uid == rustix::process::geteuid() {
        return Ok(()); // Already this user, with its groups.
    }
    // This process has one thread, so the thread's ids are the process's.
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    if !uid.is_root() {
        // A daemon that is not root keeps its capabilities across the change; the user has none.
        let _old_kernel = rustix::thread::clear_ambient_capability_set();
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets)?;
    }
    // The user must not be able to trace this process: the daemon trusts its events.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)
}
