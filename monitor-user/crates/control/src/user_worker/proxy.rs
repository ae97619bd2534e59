//! The daemon's proxy of a user worker: its process, its socket, and the undo log.
//!
//! In: requests. Out: replies, sooner or later, and events. Its user can stop the process at any
//! time, so nothing here waits for it: what the socket does not accept is kept, and a user worker
//! that replies to nothing for too long is killed. When a user worker dies, another one is started,
//! which resumes everything that the first had stopped and removes its breakpoints.

use super::frame::{CHUNK, Inbox, frame};
use super::process::{exits_within, spawn, undo_file};
use super::role::{MAX_REPLY_TIME, WorkerRole};
use super::undo_file::{UndoFile, UndoFolder};
use super::user::User;
use super::{UserWorker, undo_log::UndoLog};
use crate::{
    ControlError, NumberedRequest, ToolId, WorkerEvent, WorkerReply, WorkerRequest,
    messages::WorkerMessage,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::{net::UnixStream, process::ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time to undo everything and exit, once the socket is closed; for all user workers together.
const EXIT_TIME: Duration = Duration::from_millis(400);
/// The same for those that replace user workers which did not exit.
const SECOND_EXIT_TIME: Duration = Duration::from_millis(300);
/// Time for the kernel to end a process that was killed, after which it traces nothing.
const KILL_TIME: Duration = Duration::from_millis(100);
/// Most events that wait to be fetched; later ones are dropped and counted.
const MAX_EVENTS: usize = 65_536;
/// Most bytes that the user worker has not accepted yet, unless they are one frame.
const MAX_OUTBOX: usize = 8 << 20;
/// Most chunks received at a time, so that no user worker can keep the daemon busy.
const MAX_CHUNKS: usize = 64;

/// Time for everything that a former service has left in the processes of one user; the rest is
/// undone while the service runs.
const UNDO_TIME: Duration = Duration::from_secs(1);

/// A user worker in a process of its own.
pub struct WorkerProxy {
    program: PathBuf,
    user: Option<User>,
    role: WorkerRole,
    process: Child,
    socket: UnixStream,
    inbox: Inbox,
    /// Bytes that the socket has not accepted yet.
    outbox: VecDeque<u8>,
    /// Requests without a reply yet.
    pending: BTreeMap<u64, (ToolId, WorkerRequest)>,
    /// Those whose reply is not fetched.
    unawaited: BTreeSet<u64>,
    replies: BTreeMap<u64, Result<WorkerReply, ControlError>>,
    /// When the oldest pending request, or the last reply, was sent.
    waiting_since: Instant,
    events: Vec<WorkerEvent>,
    dropped_events: u64,
    last_number: u64,
    undo_log: UndoLog,
    /// Where undo logs are written, and the file of this one.
    undo_folder: Option<Arc<UndoFolder>>,
    undo_file: Option<UndoFile>,
    /// The files of earlier processes, until this one has undone what they did.
    earlier_files: Vec<UndoFile>,
    /// Whether this process has replied to anything.
    has_replied: bool,
    /// Whether there is no process any more, and none is started.
    is_lost: bool,
    /// Processes that were killed and have not ended yet.
    killed: Vec<Child>,
}

impl WorkerProxy {
    /// Starts a user worker for a user; without one, with the rights of this process. With a
    /// folder, what is to be undone is written there before it is done.
    pub fn start(
        program: &Path,
        user: Option<User>,
        undo_folder: Option<Arc<UndoFolder>>,
    ) -> io::Result<Self> {
        Self::with_role(program, user, WorkerRole::Actor, undo_folder)
    }

    /// Starts one that reads files.
    pub fn start_reader(program: &Path, user: Option<User>) -> io::Result<Self> {
        Self::with_role(program, user, WorkerRole::Reader, None)
    }

    fn with_role(
        program: &Path,
        user: Option<User>,
        role: WorkerRole,
        undo_folder: Option<Arc<UndoFolder>>,
    ) -> io::Result<Self> {
        let (undo_file, mark) = undo_file(undo_folder.as_deref(), user.as_ref())?;
        let (process, socket) = spawn(program, user.as_ref(), role, mark)?;
        Ok(Self {
            undo_folder,
            undo_file,
            earlier_files: Vec::new(),
            program: program.to_owned(),
            user,
            role,
            process,
            socket,
            inbox: role.inbox(),
            outbox: VecDeque::new(),
            pending: BTreeMap::new(),
            unawaited: BTreeSet::new(),
            replies: BTreeMap::new(),
            waiting_since: Instant::now(),
            events: Vec::new(),
            dropped_events: 0,
            last_number: 0,
            undo_log: UndoLog::default(),
            has_replied: false,
            is_lost: false,
            killed: Vec::new(),
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

    /// Starts another process if this one is lost.
    pub fn revive(&mut self) -> io::Result<()> {
        if self.is_lost {
            self.spawn()?;
            self.is_lost = false;
        }
        Ok(())
    }

    fn spawn(&mut self) -> io::Result<()> {
        let (undo_file, mark) = undo_file(self.undo_folder.as_deref(), self.user.as_ref())?;
        let (process, socket) = spawn(&self.program, self.user.as_ref(), self.role, mark)?;
        self.undo_file = undo_file;
        self.killed.push(std::mem::replace(&mut self.process, process));
        (self.socket, self.has_replied) = (socket, false);
        Ok(())
    }

    /// Whether it has ended and is not replaced: it could not take the rights of its user.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether the socket has not accepted all requests yet.
    pub fn has_unsent(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// When `poll` must be called at the latest: a reply is there, or the process is replaced
    /// because it has not replied.
    pub fn deadline(&self) -> Option<Instant> {
        if !self.replies.is_empty() {
            return Some(Instant::now());
        }
        (!self.pending.is_empty()).then(|| self.waiting_since + self.role.reply_time())
    }

    /// Sends a request; returns the number that its reply will carry.
    pub fn send(&mut self, tool: ToolId, request: WorkerRequest) -> u64 {
        self.undo_log.record_request(tool, &request);
        if let Err(error) = self.write_undo() {
            let call = "writing the undo file".to_owned();
            let refusal = Err(ControlError::Failed { call, why: error.to_string() });
            self.undo_log.record_reply(tool, &request, &refusal);
            self.last_number += 1;
            let _none = self.replies.insert(self.last_number, refusal);
            return self.last_number;
        }
        let number = self.enqueue(tool, request);
        if self.is_lost {
            self.fail_pending(&ControlError::WorkerLost);
        } else if self.flush().is_err() {
            self.restart();
        }
        number
    }

    /// Sends a request whose reply is not fetched.
    pub fn send_unawaited(&mut self, tool: ToolId, request: WorkerRequest) {
        let number = self.send(tool, request);
        if self.replies.remove(&number).is_none() {
            let _new = self.unawaited.insert(number);
        }
    }

    /// Receives what has arrived; call it when the descriptor is readable.
    pub fn poll(&mut self) {
        self.killed.retain_mut(|process| matches!(process.try_wait(), Ok(None)));
        if self.is_lost {
            return;
        }
        let exchanged = self.flush().and_then(|()| {
            let mut chunks = 0;
            while chunks < MAX_CHUNKS && self.receive()? {
                chunks += 1;
            }
            Ok(())
        });
        let is_late =
            !self.pending.is_empty() && self.waiting_since.elapsed() >= self.role.reply_time();
        if exchanged.is_err() || is_late {
            self.restart();
        }
    }

    /// The reply to a request, once it has arrived.
    pub fn take_reply(&mut self, number: u64) -> Option<Result<WorkerReply, ControlError>> {
        self.replies.remove(&number)
    }

    /// Appends a request to what is to be sent.
    fn enqueue(&mut self, tool: ToolId, request: WorkerRequest) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        let numbered = NumberedRequest { number, tool, request };
        let framed = frame(&numbered);
        if self.pending.is_empty() {
            self.waiting_since = Instant::now();
        }
        let _none = self.pending.insert(number, (tool, numbered.request));
        match framed {
            Ok(bytes) => self.outbox.extend(bytes),
            Err(error) => {
                let (call, why) = ("sending to the user worker".to_owned(), error.to_string());
                let refused = Err(ControlError::Failed { call, why });
                self.handle(WorkerMessage::Reply(number, refused));
            }
        }
        number
    }

    /// Writes as much of the outbox as the socket accepts.
    fn flush(&mut self) -> io::Result<()> {
        let had = self.outbox.len();
        while !self.outbox.is_empty() {
            match self.socket.write(self.outbox.as_slices().0) {
                Ok(written) => drop(self.outbox.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let is_stuck = self.outbox.len() == had && had > MAX_OUTBOX;
        if is_stuck { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    /// Receives once; whether there was anything.
    fn receive(&mut self) -> io::Result<bool> {
        let mut chunk = vec![0; CHUNK];
        match self.socket.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => self.inbox.add(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        while let Some(message) = self.inbox.next_message::<WorkerMessage>()? {
            self.handle(message);
        }
        Ok(true)
    }

    fn handle(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Reply(number, answer) => {
                // A reply to an unknown request is ignored.
                let Some((tool, request)) = self.pending.remove(&number) else { return };
                self.has_replied = true;
                self.waiting_since = Instant::now();
                self.undo_log.record_reply(tool, &request, &answer);
                self.write_changes();
                if !self.unawaited.remove(&number) {
                    let _none = self.replies.insert(number, answer);
                } else if self.unawaited.is_empty() {
                    self.earlier_files.clear();
                }
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
        undo_log.undo_locally(self.uid());
        let until = Instant::now() + UNDO_TIME;
        for request in undo_log.undo_requests() {
            let number = self.enqueue(ToolId(0), request);
            // A refusal is final: the kernel would refuse the daemon's user as well.
            let _answer = self.wait_reply(number, until);
            let _answer = self.take_reply(number);
        }
    }

    /// Replaces a user worker that died; the new one undoes what the old one did. One that exited
    /// without a reply could not take the rights of its user, and another one could not either.
    fn restart(&mut self) {
        let status = self.kill();
        self.is_lost = !self.has_replied && status.is_some_and(|it| it.signal().is_none());
        self.fail_pending(&match self.is_lost {
            true => ControlError::Denied {
                what: "acting as this user".to_owned(),
                need: "CAP_SETUID and CAP_SETGID in the service".to_owned(),
            },
            false => ControlError::WorkerLost,
        });
        self.inbox = self.role.inbox();
        self.outbox.clear();
        let undo_log = std::mem::take(&mut self.undo_log);
        undo_log.undo_locally(self.uid());
        self.earlier_files.extend(self.undo_file.take());
        if self.is_lost {
            return;
        }
        match self.spawn() {
            Ok(()) => {
                for request in undo_log.undo_requests() {
                    // A refusal is final: the kernel would refuse the daemon's user as well.
                    let number = self.enqueue(ToolId(0), request);
                    let _new = self.unawaited.insert(number);
                }
                if self.unawaited.is_empty() {
                    self.earlier_files.clear();
                }
                // If it has died already, the next poll finds out.
                let _gone = self.flush();
            }
            // Only the daemon's own rights are left.
            Err(error) => {
                self.is_lost = true;
                tracing::error!("cannot start another user worker: {error}");
                undo_log.undo_dumps_locally();
            }
        }
        self.undo_log.take_watched(&undo_log);
        self.write_changes();
        self.events.extend(undo_log.lost_events());
    }

    /// Kills the process; its status, if it had ended already. What it traces runs on once it has
    /// ended.
    fn kill(&mut self) -> Option<ExitStatus> {
        // One that exits by itself closes its socket first.
        let time = if self.has_replied { Duration::ZERO } else { KILL_TIME };
        let _ended = exits_within(&mut self.process, time);
        let status = self.process.try_wait().ok().flatten();
        if status.is_none() {
            let _dead = self.process.kill();
            let _ended = exits_within(&mut self.process, KILL_TIME);
        }
        status
    }

    fn fail_pending(&mut self, error: &ControlError) {
        for (number, _) in std::mem::take(&mut self.pending) {
            if !self.unawaited.remove(&number) {
                let _none = self.replies.insert(number, Err(error.clone()));
            }
        }
    }

    /// The user whose processes it may resume; absent, that of the service, which may resume all.
    fn uid(&self) -> Option<u32> {
        self.user.as_ref().map(|user| user.uid)
    }

    /// Waits until the reply has arrived.
    fn wait_reply(&mut self, number: u64, until: Instant) -> Result<(), ControlError> {
        while !self.replies.contains_key(&number) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ControlError::TimedOut("the reply of the user worker".to_owned()));
            }
            let pause = Timespec::try_from(left).unwrap_or_default();
            let write = if self.has_unsent() { PollFlags::OUT } else { PollFlags::empty() };
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN | write)];
            let _interrupted = poll(&mut fds, Some(&pause));
            if self.flush().and_then(|()| self.receive()).is_err() {
                return Err(ControlError::WorkerLost);
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

impl WorkerProxy {
    /// Closes the socket: the user worker undoes everything and exits.
    fn begin_exit(&mut self) {
        if self.role == WorkerRole::Reader {
            // It holds nothing, and may be waiting for a file.
            let _dead = self.process.kill();
            return;
        }
        // The rule programs are removed by now; the user worker need not wait for them, and if it
        // was killed, what they have stopped is resumed like the rest.
        let unset_requests = self.undo_log.unset_requests();
        let resume_requests = self.undo_log.resume_watched();
        self.undo_log.end_rules();
        for (tool, unset) in unset_requests {
            let _number = self.enqueue(tool, unset);
        }
        // Of those that a former user worker watched, this one does not know.
        for resume in resume_requests {
            let _number = self.enqueue(ToolId(0), resume);
        }
        let _unsent = self.flush();
        // Its own direction stays open: a reply that fails would end it before the last request.
        let _closed = self.socket.shutdown(std::net::Shutdown::Write);
    }

    /// Whether it has undone everything, once it has ended: one that was killed has undone nothing.
    fn has_undone(&mut self) -> bool {
        self.role == WorkerRole::Reader
            || self.undo_log.is_empty()
            || matches!(self.process.wait(), Ok(status) if status.success())
    }
}

/// Ends user workers, all together within a common deadline, and undoes what they did.
pub(super) fn end_all(workers: &mut [&mut WorkerProxy]) {
    workers.iter_mut().filter(|it| !it.is_lost).for_each(|it| it.begin_exit());
    let until = Instant::now() + EXIT_TIME;
    let left = |until: Instant| until.saturating_duration_since(Instant::now());
    let mut replaced = Vec::new();
    for worker in workers.iter_mut().filter(|it| !it.is_lost) {
        if !exits_within(&mut worker.process, left(until)) {
            // Its user may have stopped it; the daemon waits for no user without a limit.
            tracing::warn!("the user worker {} does not exit: killed", worker.process.id());
            replaced.push(worker);
        } else if !worker.has_undone() {
            tracing::warn!("the user worker {} was killed", worker.process.id());
            replaced.push(worker);
        }
    }
    for worker in &mut replaced {
        // Another one undoes what it did.
        worker.restart();
        worker.begin_exit();
    }
    let until = Instant::now() + SECOND_EXIT_TIME;
    for worker in replaced.iter_mut().filter(|it| !it.is_lost) {
        if !exits_within(&mut worker.process, left(until)) {
            let _dead = worker.process.kill();
        }
    }
    workers.iter_mut().for_each(|it| it.is_lost = true);
}

impl Drop for WorkerProxy {
    fn drop(&mut self) {
        end_all(&mut [self]);
    }
}
