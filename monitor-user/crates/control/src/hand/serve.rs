//! The process that is a hand: `monitor hand`, started by the daemon with a socket as its input.
//!
//! In: orders as frames. Out: answers and what happened. It becomes its user before it reads
//! anything, with no capability that the user has not. It is also the guardian: when the socket
//! closes, be it that the daemon was killed, or when it is told to end, it undoes everything.

use super::super::act::{Order, Told};
use super::super::trouble::Trouble;
use super::super::worker::Worker;
use super::User;
use super::frame::{CHUNK, Inbox, frame};
use monitor_model::id::Pid;
use monitor_sys::pidfd::Held;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets, Gid, Uid};
use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// There is something to read, or the other end has gone.
const END: PollFlags = PollFlags::IN.union(PollFlags::HUP).union(PollFlags::ERR);

/// Most that waits for the daemon: two of the longest frames. One that takes nothing is gone.
const WAITING_AT_MOST: usize = 32 << 20;
/// Signals after which it ends; `SIGCHLD` tells of threads.
const ENDING: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];

/// Serves until the socket closes; then all is undone.
pub fn serve(socket: UnixStream, user: Option<&User>) -> io::Result<()> {
    if let Some(user) = user {
        become_user(user)?;
    }
    // Not in the terminal's group: an interrupt is for the one who asks, his end tells us.
    let _already = rustix::process::setsid();
    socket.set_nonblocking(true)?;
    let mut hand = Serving {
        worker: Worker::on(socket.as_fd().try_clone_to_owned()?, daemon()),
        signals: signals()?,
        inbox: Inbox::default(),
        outbox: VecDeque::new(),
        socket,
    };
    let ended = hand.run();
    hand.worker.undo();
    match ended {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

struct Serving {
    socket: UnixStream,
    signals: SignalFd,
    worker: Worker,
    inbox: Inbox,
    /// What the daemon has not taken yet: to wait for it would keep us from undoing.
    outbox: VecDeque<u8>,
}

impl Serving {
    fn run(&mut self) -> io::Result<()> {
        loop {
            self.flush()?;
            let (has_orders, has_signals) = self.wait()?;
            if has_signals && self.is_to_end()? {
                return Ok(());
            }
            if has_orders && !self.take()? {
                return Ok(());
            }
            while let Some(order) = self.inbox.next::<Order>()? {
                let answer = self.worker.obey(&order);
                if matches!(answer, Err(Trouble::HandLost)) {
                    return Ok(());
                }
                self.say(&Told::Answer(order.number, answer))?;
                if self.worker.is_due() {
                    self.turn()?;
                }
            }
            self.turn()?;
        }
    }

    /// Takes in what has happened, and tells it.
    fn turn(&mut self) -> io::Result<()> {
        self.worker.turn();
        for happened in self.worker.told() {
            self.say(&Told::Happened(happened))?;
        }
        Ok(())
    }

    /// Whether there are orders, or the end of them; whether there are signals.
    fn wait(&self) -> io::Result<(bool, bool)> {
        let next = self.worker.next().map(|at| at.saturating_duration_since(Instant::now()));
        let next = next.and_then(|it| Timespec::try_from(it).ok());
        let write = if self.outbox.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let socket = PollFd::new(&self.socket, PollFlags::IN | write);
        let mut fds = [socket, PollFd::new(&self.signals, PollFlags::IN)];
        match poll(&mut fds, next.as_ref()) {
            Ok(_) => Ok((fds[0].revents().intersects(END), !fds[1].revents().is_empty())),
            Err(rustix::io::Errno::INTR) => Ok((false, false)),
            Err(error) => Err(error.into()),
        }
    }

    fn is_to_end(&mut self) -> io::Result<bool> {
        while let Some(signal) = self.signals.read_signal()? {
            let number = i32::try_from(signal.ssi_signo).unwrap_or(0);
            if ENDING.iter().any(|it| *it as i32 == number) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the other end is there still.
    fn take(&mut self) -> io::Result<bool> {
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

    fn say(&mut self, told: &Told) -> io::Result<()> {
        self.outbox.extend(frame(told)?);
        self.flush()?;
        if self.outbox.len() > WAITING_AT_MOST {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    /// Gives the daemon what it takes.
    fn flush(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() {
            match self.socket.write(self.outbox.as_slices().0) {
                Ok(written) => drop(self.outbox.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Who started us, held. If it has died already, whoever is our parent now ends much later.
fn daemon() -> Option<Held> {
    let pid = u32::try_from(rustix::process::getppid()?.as_raw_nonzero().get()).ok()?;
    Held::open(Pid(pid)).ok()
}

fn signals() -> io::Result<SignalFd> {
    let mut set: SigSet = ENDING.into_iter().collect();
    set.add(Signal::SIGCHLD);
    set.thread_block()?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    Ok(SignalFd::with_flags(&set, flags)?)
}

/// Takes a user's rights for ever. Root's hand keeps what root has.
fn become_user(user: &User) -> io::Result<()> {
    let groups: Vec<Gid> = user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    if uid == rustix::process::getuid() && uid == rustix::process::geteuid() {
        return Ok(()); // Ours already, and with it the groups.
    }
    // This process has one thread, so these are the rights of the process.
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    if !uid.is_root() {
        // A daemon that is not root keeps its capabilities over that; its user has none.
        let _old_kernel = rustix::thread::clear_ambient_capability_set();
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets)?;
    }
    // The user must not own the process that acts for him: what it tells is believed.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)
}
