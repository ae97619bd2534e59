//! The daemon's proxy of a user worker: its process, its socket, and the undo log.
//!
//! In: requests. Out: replies, sooner or later, and events. When the user worker dies, another one
//! is started, which resumes everything that the first had stopped and removes its breakpoints.

use super::frame::{CHUNK, Inbox, frame};
use super::undo_file::{UndoFile, UndoFolder};
use super::user::User;
use super::{UserWorker, undo_log::UndoLog};
use crate::{
    ControlError, NumberedRequest, ToolId, WorkerEvent, WorkerReply, WorkerRequest,
    messages::WorkerMessage,
};
use monitor_sys::fd_limit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fs::File, os::unix::net::UnixStream, sync::Arc};

/// The longest request takes 5 s (the check of CRIU), and others may be queued before it.
const MAX_REPLY_TIME: Duration = Duration::from_secs(10);
/// Time for everything that a new user worker undoes of the one before; it goes on afterwards, but
/// the daemon, which acts for all users, no longer waits.
const UNDO_TIME: Duration = Duration::from_secs(1);
/// Time to undo everything and exit, once the socket is closed.
const EXIT_TIME: Duration = Duration::from_millis(500);
/// Most events that wait to be fetched; later ones are dropped and counted.
const MAX_EVENTS: usize = 65_536;

/// A user worker in a process of its own.
pub struct WorkerProxy {
    program: PathBuf,
    user: Option<User>,
    process: Child,
    socket: UnixStream,
    inbox: Inbox,
    /// Requests without a reply yet.
    pending: BTreeMap<u64, (ToolId, WorkerRequest)>,
    replies: BTreeMap<u64, Result<WorkerReply, ControlError>>,
    events: Vec<WorkerEvent>,
    dropped_events: u64,
    last_number: u64,
    undo_log: UndoLog,
    /// Where undo logs are written, and the file of this one.
    undo_folder: Option<Arc<UndoFolder>>,
    undo_file: Option<UndoFile>,
}

impl WorkerProxy {
    /// Starts a user worker for a user; without one, with the rights of this process. With a
    /// folder, what is to be undone is written there before it is done.
    pub fn start(
        program: &Path,
        user: Option<User>,
        undo_folder: Option<Arc<UndoFolder>>,
    ) -> io::Result<Self> {
        let (undo_file, mark) = undo_file(undo_folder.as_deref(), user.as_ref())?;
        let (process, socket) = spawn(program, user.as_ref(), mark)?;
        Ok(Self {
            undo_folder,
            undo_file,
            program: program.to_owned(),
            user,
            process,
            socket,
            inbox: Inbox::default(),
            pending: BTreeMap::new(),
            replies: BTreeMap::new(),
            events: Vec::new(),
            dropped_events: 0,
            last_number: 0,
            undo_log: UndoLog::default(),
        })
    }

    /// The pid of its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Number of events dropped because they were not fetched in time.
    pub fn dropped_events(&self) -> u64 {
        self.dropped_events
    }

    /// Sends a request; returns the number that its reply will carry.
    pub fn send(&mut self, tool: ToolId, request: WorkerRequest) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        self.undo_log.record_request(tool, &request);
        if let Err(error) = self.write_undo() {
            let call = "writing the undo file".to_owned();
            let refusal = Err(ControlError::Failed { call, why: error.to_string() });
            self.undo_log.record_reply(tool, &request, &refusal);
            let _none = self.replies.insert(number, refusal);
            return number;
        }
        let numbered = NumberedRequest { number, tool, request };
        let sent = frame(&numbered).and_then(|bytes| self.socket.write_all(&bytes));
        let _none = self.pending.insert(number, (tool, numbered.request));
        if sent.is_err() {
            self.restart();
        }
        number
    }

    /// Receives what has arrived; call it when the descriptor is readable.
    pub fn poll(&mut self) {
        loop {
            match self.receive() {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    self.restart();
                    break;
                }
            }
        }
    }

    /// The reply to a request, once it has arrived.
    pub fn take_reply(&mut self, number: u64) -> Option<Result<WorkerReply, ControlError>> {
        self.replies.remove(&number)
    }

    /// Receives once; whether there was anything.
    fn receive(&mut self) -> io::Result<bool> {
        if !self.is_readable() {
            return Ok(false);
        }
        let mut chunk = vec![0; CHUNK];
        match self.socket.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => self.inbox.add(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        }
        while let Some(message) = self.inbox.next::<WorkerMessage>()? {
            self.handle(message);
        }
        Ok(true)
    }

    fn is_readable(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..))
    }

    fn handle(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Reply(number, answer) => {
                // A reply to an unknown request is ignored.
                let Some((tool, request)) = self.pending.remove(&number) else { return };
                self.undo_log.record_reply(tool, &request, &answer);
                self.write_changes();
                let _none = self.replies.insert(number, answer);
            }
            WorkerMessage::Event(event) => {
                self.undo_log.record_event(&event);
                self.write_changes();
                if self.events.len() < MAX_EVENTS {
                    self.events.push(event);
                } else {
                    self.dropped_events += 1;
                }
            }
        }
    }

    fn write_undo(&mut self) -> io::Result<()> {
        self.undo_file.as_mut().map_or(Ok(()), |file| file.write(&mut self.undo_log))
    }

    /// Writes what has changed after an act; the acts themselves are written already.
    fn write_changes(&mut self) {
        if let Err(error) = self.write_undo() {
            tracing::error!("writing the undo file: {error}");
        }
    }

    /// Undoes what a user worker of a former service has left.
    pub fn undo_left(&mut self, undo_log: &UndoLog) {
        self.recover(undo_log);
    }

    /// Replaces a user worker that died; the new one undoes what the old one did.
    fn restart(&mut self) {
        let _dead = self.process.kill();
        let _status = self.process.wait();
        for (number, _) in std::mem::take(&mut self.pending) {
            let _none = self.replies.insert(number, Err(ControlError::WorkerLost));
        }
        self.inbox = Inbox::default();
        let undo_log = std::mem::take(&mut self.undo_log);
        // Kept until everything is undone.
        let _old_file = self.undo_file.take();
        let started = undo_file(self.undo_folder.as_deref(), self.user.as_ref());
        let started = started
            .and_then(|(file, mark)| Ok((file, spawn(&self.program, self.user.as_ref(), mark)?)));
        match started {
            Ok((file, (process, socket))) => {
                (self.undo_file, self.process, self.socket) = (file, process, socket);
                self.recover(&undo_log);
            }
            // Only the daemon's own rights are left.
            Err(error) => {
                tracing::error!("cannot start another user worker: {error}");
                undo_log.undo_locally(self.uid());
                undo_log.undo_dumps_locally();
            }
        }
        self.undo_log.take_watched(&undo_log);
        self.write_changes();
        self.events.extend(undo_log.lost_events());
    }

    fn recover(&mut self, undo_log: &UndoLog) {
        undo_log.undo_locally(self.uid());
        let until = Instant::now() + UNDO_TIME;
        for request in undo_log.undo_requests() {
            let number = self.send_without_restart(request);
            // A refusal is final: the kernel would refuse the daemon's user as well.
            let _answer = self.wait_reply(number, until);
            let _answer = self.take_reply(number);
        }
    }

    /// The user whose processes it may resume; absent, that of the service, which may resume all.
    fn uid(&self) -> Option<u32> {
        self.user.as_ref().map(|user| user.uid)
    }

    /// Sends without a second restart, should this user worker die too.
    fn send_without_restart(&mut self, request: WorkerRequest) -> u64 {
        self.last_number += 1;
        let numbered = NumberedRequest { number: self.last_number, tool: ToolId(0), request };
        let _lost = frame(&numbered).and_then(|bytes| self.socket.write_all(&bytes));
        let _none = self.pending.insert(self.last_number, (ToolId(0), numbered.request));
        self.last_number
    }

    /// Waits until the reply has arrived.
    fn wait_reply(&mut self, number: u64, until: Instant) -> Result<(), ControlError> {
        while !self.replies.contains_key(&number) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ControlError::TimedOut("the reply of the user worker".to_owned()));
            }
            let pause = Timespec::try_from(left).unwrap_or_default();
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            let _interrupted = poll(&mut fds, Some(&pause));
            match self.receive() {
                Ok(_) => {}
                Err(_) => return Err(ControlError::WorkerLost),
            }
        }
        Ok(())
    }
}

impl UserWorker for WorkerProxy {
    fn request(
        &mut self,
        tool: ToolId,
        request: WorkerRequest,
    ) -> Result<WorkerReply, ControlError> {
        let number = self.send(tool, request);
        let until = Instant::now() + MAX_REPLY_TIME;
        if self.wait_reply(number, until) == Err(ControlError::WorkerLost) {
            self.restart();
        }
        self.take_reply(number)
            .unwrap_or_else(|| Err(ControlError::TimedOut("the reply of the user worker".into())))
    }

    fn poll_events(&mut self) -> Vec<WorkerEvent> {
        self.poll();
        std::mem::take(&mut self.events)
    }
}

impl AsFd for WorkerProxy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for WorkerProxy {
    fn drop(&mut self) {
        // The rule programs are removed by now; the user worker need not wait for them, and if it
        // was killed, what they have stopped is resumed like the rest.
        let unset_requests = self.undo_log.unset_requests();
        let resume_requests = self.undo_log.resume_watched();
        self.undo_log.end_rules();
        for (tool, unset) in unset_requests {
            let _number = self.send(tool, unset);
        }
        // Of those that a former user worker watched, this one does not know.
        let until = Instant::now() + EXIT_TIME;
        for resume in resume_requests {
            let number = self.send_without_restart(resume);
            let _answer = self.wait_reply(number, until);
        }
        // When the socket closes, the user worker undoes everything and exits.
        let _closed = self.socket.shutdown(std::net::Shutdown::Both);
        if exits_within(&mut self.process, EXIT_TIME) {
            // One that was killed has undone nothing.
            if self.undo_log.is_empty() || matches!(self.process.wait(), Ok(it) if it.success()) {
                return;
            }
            tracing::warn!("the user worker {} was killed", self.process.id());
        } else {
            // Its user may have stopped it; the daemon waits for no user without a limit.
            tracing::warn!("the user worker {} does not exit: killed", self.process.id());
        }
        // Another one undoes what it did.
        self.restart();
        let _closed = self.socket.shutdown(std::net::Shutdown::Both);
        if !exits_within(&mut self.process, EXIT_TIME) {
            let _dead = self.process.kill();
            let _reaped = exits_within(&mut self.process, EXIT_TIME);
        }
    }
}

/// Whether a process exits in time; reaps it.
fn exits_within(process: &mut Child, time: Duration) -> bool {
    if let Ok(pidfd) = pidfd_open(Pid::from_child(process), PidfdFlags::empty()) {
        let until = Instant::now() + time;
        let left = || until.saturating_duration_since(Instant::now());
        while !left().is_zero() {
            let left = Timespec::try_from(left()).unwrap_or_default();
            if poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) != Err(Errno::INTR) {
                break;
            }
        }
    }
    !matches!(process.try_wait(), Ok(None))
}

/// The undo file of a new user worker and its mark, if there is a folder for them.
fn undo_file(
    folder: Option<&UndoFolder>,
    user: Option<&User>,
) -> io::Result<(Option<UndoFile>, Option<File>)> {
    let Some(folder) = folder else { return Ok((None, None)) };
    folder.new_file(user).map(|(file, mark)| (Some(file), Some(mark)))
}

/// Starts the process with the socket as standard input, which no other process inherits, and the
/// mark of its undo file as standard output.
fn spawn(
    program: &Path,
    user: Option<&User>,
    mark: Option<File>,
) -> io::Result<(Child, UnixStream)> {
    let (own, other) = UnixStream::pair()?;
    // A user worker that accepts no request for this long counts as dead.
    own.set_write_timeout(Some(MAX_REPLY_TIME))?;
    let mut command = Command::new(program);
    let _command = command.arg("user-worker").stdin(Stdio::from(OwnedFd::from(other)));
    let _command = command.stdout(mark.map_or_else(Stdio::null, Stdio::from));
    fd_limit::restore_in(&mut command);
    // Those of systemd are for the service alone.
    for variable in ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS"] {
        let _command = command.env_remove(variable);
    }
    if let Some(user) = user {
        // The environment of the daemon may hold secrets that other users must not see.
        let _command = command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        let groups: Vec<String> = user.groups.iter().map(u32::to_string).collect();
        let _command =
            command.arg(format!("--uid={}", user.uid)).arg(format!("--gid={}", user.gid));
        let _command = command.arg(format!("--groups={}", groups.join(",")));
    }
    Ok((command.spawn()?, own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_is_not_waited_for_beyond_the_limit() {
        let mut process = Command::new("sleep").arg("1000").spawn().expect("a process");
        let pid = Pid::from_child(&process);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it runs");
        assert!(!exits_within(&mut process, Duration::from_millis(20)));
        process.kill().expect("it is ours");
        assert!(exits_within(&mut process, MAX_REPLY_TIME));
    }
}
