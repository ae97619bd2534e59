//! The processes that read what users name: files that a process has mapped. One for each user,
//! apart from the one that acts, so that a file system that does not reply holds up nothing else.
//!
//! In: questions. Out: answers, sooner or later, within the limits of time and memory of a reader.
//! The files of a process are read with the rights of its owner, or, where these do not suffice (a
//! container with users of its own, a file that was replaced), with those of the service; also then
//! in a reader for this owner alone.

use super::queue_answers::QueueQuestion;
use crate::tap::answers::CallQuestion;
use monitor_control::user_worker::WorkerPool;
use monitor_control::{
    ControlError, FileQuery, FoundInFiles, QueueAnswer, ToolId, UserWorker as _, WorkerReply,
    WorkerRequest,
};
use monitor_model::{Identity, Ns, Pid};
use monitor_symbols::report::{FailureClass, Report};
use monitor_symbols::{SymbolError, calls::FoundCalls, diag_probes::DiagProbeSite};
use rustix::thread::CapabilitySet;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::{path::PathBuf, sync::Arc};

/// Most questions of a user that are not answered yet.
const MAX_PENDING: usize = 2048;

/// A question.
#[derive(Clone, Debug)]
pub enum FileQuestion {
    /// Where a process has a function.
    Calls(CallQuestion),
    /// Which static probes a process has.
    DiagProbes(Identity),
    /// The message queue of a process.
    Queue(QueueQuestion),
}

/// Its answer.
#[derive(Debug)]
pub enum FileAnswer {
    /// Where a process has a function.
    Calls(CallQuestion, Result<Arc<FoundCalls>, SymbolError>),
    /// Which static probes a process has.
    DiagProbes(Identity, Result<Vec<DiagProbeSite>, SymbolError>),
    /// The message queue of a process.
    Queue(QueueQuestion, Result<QueueAnswer, SymbolError>),
}

/// All readers.
pub struct FileReaders {
    program: PathBuf,
    /// By the owner of the processes whose files they read.
    pools: BTreeMap<u32, WorkerPool>,
    pending: HashMap<ReadId, FileQuestion>,
    answers: Vec<FileAnswer>,
}

/// A question at a reader.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ReadId {
    /// The owner of the process.
    owner: u32,
    /// The user of the reader.
    uid: u32,
    number: u64,
}

impl FileReaders {
    /// Readers that run this executable.
    pub fn new(program: PathBuf) -> Self {
        Self { program, pools: BTreeMap::new(), pending: HashMap::new(), answers: Vec::new() }
    }

    /// Asks; the answer comes with [`FileReaders::poll`].
    pub fn ask(&mut self, question: FileQuestion) {
        let pid = question.pid();
        let owner = std::fs::metadata(format!("/proc/{}", pid.0)).map(|it| (it.uid(), it.gid()));
        let Ok(owner) = owner else {
            return self.answers.push(question.answer(Err(SymbolError::Gone { pid: pid.0 })));
        };
        self.ask_reader(question, owner.0, if may_change_user() { owner } else { own_user() });
    }

    fn ask_reader(&mut self, question: FileQuestion, owner: u32, (uid, gid): (u32, u32)) {
        let refuse = |text: String| {
            let report = Report { class: FailureClass::Unreadable, text, errno: 0 };
            Err(SymbolError::from(report))
        };
        if self.pending.keys().filter(|it| it.owner == owner).count() >= MAX_PENDING {
            let text =
                format!("{MAX_PENDING} searches in files of user {owner} are running; retry");
            return self.answers.push(question.answer(refuse(text)));
        }
        let program = &self.program;
        let new = || WorkerPool::readers(program.clone());
        let pool = self.pools.entry(owner).or_insert_with(new);
        if let Err(error) = pool.ensure(uid, gid) {
            let text = format!("no process can be started that reads files: {error}");
            return self.answers.push(question.answer(refuse(text)));
        }
        let Some(reader) = pool.get_mut(uid) else { return };
        let request = WorkerRequest::ReadFiles(question.pid(), question.query());
        let number = reader.send(ToolId(0), request);
        pool.watch(uid);
        let _none = self.pending.insert(ReadId { owner, uid, number }, question);
    }

    /// One is readable when a reader has answered.
    pub fn wake_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.pools.values().filter_map(WorkerPool::wake_fd)
    }

    /// When it must be polled at the latest.
    pub fn next_poll(&self) -> Option<Ns> {
        match self.answers.is_empty() {
            true => {
                let deadline = self.pools.values().filter_map(WorkerPool::deadline).min();
                deadline.map(super::user_workers::boot_time)
            }
            false => Some(Ns(0)),
        }
    }

    /// The answers that have arrived.
    pub fn poll(&mut self) -> Vec<FileAnswer> {
        let mut replies = Vec::new();
        for (owner, pool) in &mut self.pools {
            for uid in pool.uids() {
                let Some(reader) = pool.get_mut(uid) else { continue };
                let _events = reader.poll_events();
                for id in self.pending.keys().filter(|it| (it.owner, it.uid) == (*owner, uid)) {
                    replies.extend(reader.take_reply(id.number).map(|reply| (*id, reply)));
                }
                pool.watch(uid);
            }
        }
        self.take_replies(replies);
        std::mem::take(&mut self.answers)
    }

    fn take_replies(&mut self, replies: Vec<(ReadId, Result<WorkerReply, ControlError>)>) {
        for (id, reply) in replies {
            let Some(question) = self.pending.remove(&id) else { continue };
            match found(question.pid(), reply) {
                Err(error) if error.class() == FailureClass::Denied && id.uid != own_user().0 => {
                    self.ask_reader(question, id.owner, own_user());
                }
                found => self.answers.push(question.answer(found)),
            }
        }
    }
}

impl FileQuestion {
    const fn pid(&self) -> Pid {
        match self {
            Self::Calls((pid, _)) => *pid,
            Self::DiagProbes(id) | Self::Queue((id, _)) => id.pid,
        }
    }

    fn query(&self) -> FileQuery {
        match self {
            Self::Calls((_, query)) => FileQuery::Calls(query.clone()),
            Self::DiagProbes(_) => FileQuery::DiagProbes,
            Self::Queue((_, query)) => FileQuery::Queue(query.clone()),
        }
    }

    fn answer(self, found: Result<FoundInFiles, SymbolError>) -> FileAnswer {
        match (self, found) {
            (Self::Calls(question), Ok(FoundInFiles::Calls(found))) => {
                FileAnswer::Calls(question, Ok(Arc::new(found)))
            }
            (Self::Calls(question), found) => FileAnswer::Calls(question, Err(no_answer(found))),
            (Self::DiagProbes(id), Ok(FoundInFiles::DiagProbes(found))) => {
                FileAnswer::DiagProbes(id, Ok(found))
            }
            (Self::DiagProbes(id), found) => FileAnswer::DiagProbes(id, Err(no_answer(found))),
            (Self::Queue(question), Ok(FoundInFiles::Queue(found))) => {
                FileAnswer::Queue(question, Ok(found))
            }
            (Self::Queue(question), found) => FileAnswer::Queue(question, Err(no_answer(found))),
        }
    }
}

/// Why there is no answer.
fn no_answer(found: Result<FoundInFiles, SymbolError>) -> SymbolError {
    found.err().unwrap_or(SymbolError::Changing)
}

/// What a reader has found.
fn found(pid: Pid, reply: Result<WorkerReply, ControlError>) -> Result<FoundInFiles, SymbolError> {
    match reply {
        Ok(WorkerReply::Files(Ok(found))) => found.checked(),
        Ok(WorkerReply::Files(Err(report))) => Err(report.into()),
        Ok(_) => Err(SymbolError::Changing),
        Err(error) => {
            let why = match error {
                ControlError::WorkerLost => {
                    "that took more than 8 s or 256 MiB, or the process that reads was killed"
                        .to_owned()
                }
                other => other.to_string(),
            };
            let text = format!("the files of process {} cannot be read: {why}", pid.0);
            Err(Report { class: FailureClass::Unreadable, text, errno: 0 }.into())
        }
    }
}

fn own_user() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Whether a reader can take the rights of another user.
fn may_change_user() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}
