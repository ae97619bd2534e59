//! The user workers of a node: one per uid, started when first needed.
//!
//! In: a user. Out: the proxy of that user's worker, and one descriptor that is readable when any
//! worker has sent something.

use super::{UndoFolder, User, UserWorker as _, WorkerProxy};
use crate::{ControlError, ToolId, WorkerRequest};
use rustix::event::epoll;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::{collections::BTreeMap, io, path::Path, path::PathBuf, sync::Arc};

/// This program, even if its file was replaced since it started.
pub const SELF_EXE: &str = "/proc/self/exe";

/// All user workers, by uid.
pub struct WorkerPool {
    /// The executable that runs as user worker.
    program: PathBuf,
    /// Where undo logs are written, if they are.
    undo_folder: Option<PathBuf>,
    workers: BTreeMap<u32, WorkerProxy>,
    /// The worker pid that is registered with epoll for each uid.
    watched_pids: BTreeMap<u32, u32>,
    epoll_fd: Option<OwnedFd>,
}

impl WorkerPool {
    /// A pool that starts workers from this executable. With a folder, what is to be undone is
    /// written there before it is done.
    pub fn new(program: PathBuf, undo_folder: Option<PathBuf>) -> Self {
        let (workers, watched_pids) = (BTreeMap::new(), BTreeMap::new());
        Self { program, undo_folder, workers, watched_pids, epoll_fd: None }
    }

    /// Starts the worker of a user, unless it runs already.
    pub fn ensure(&mut self, uid: u32, gid: u32) -> io::Result<()> {
        if self.workers.contains_key(&uid) {
            return Ok(());
        }
        let groups = || monitor_sys::users::groups(uid, gid);
        let own = monitor_sys::fsuid::effective_uid();
        let user = (uid != own).then(|| User { uid, gid, groups: groups() });
        let folder = self.undo_folder.as_deref().map(UndoFolder::create).transpose()?;
        let mut worker = WorkerProxy::start(&self.program, user, folder.map(Arc::new))?;
        // A worker that cannot change to its user exits before it replies.
        let first_reply = worker.request(ToolId(0), WorkerRequest::ForgetTool);
        let need = "the service needs CAP_SETUID and CAP_SETGID to act as other users";
        let _forgotten = first_reply.map_err(|error| match error {
            ControlError::WorkerLost => io::Error::other(need),
            other => io::Error::other(other.to_string()),
        })?;
        let _none = self.workers.insert(uid, worker);
        self.watch(uid);
        Ok(())
    }

    /// The worker of a user, if it was started.
    pub fn get_mut(&mut self, uid: u32) -> Option<&mut WorkerProxy> {
        self.workers.get_mut(&uid)
    }

    /// The users that have a worker.
    pub fn uids(&self) -> Vec<u32> {
        self.workers.keys().copied().collect()
    }

    /// Readable when any worker has sent something.
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.epoll_fd.as_ref().map(|epoll_fd| epoll_fd.as_fd())
    }

    /// Registers the worker of a user with epoll, also after a restart.
    pub fn watch(&mut self, uid: u32) {
        let Some(worker) = self.workers.get(&uid) else { return };
        if self.watched_pids.insert(uid, worker.pid()) == Some(worker.pid()) {
            return;
        }
        if self.epoll_fd.is_none() {
            self.epoll_fd = epoll::create(epoll::CreateFlags::CLOEXEC).ok();
        }
        if let Some(epoll_fd) = &self.epoll_fd {
            let data = epoll::EventData::new_u64(u64::from(uid));
            // If this fails, its messages are only read at the next wake-up.
            let _deaf = epoll::add(epoll_fd, worker, data, epoll::EventFlags::IN);
        }
    }
}

/// Undoes what a former service and its user workers have left when they were killed at once, with
/// a user worker of each user; before a new service accepts requests.
///
/// # Errors
///
/// If the folder cannot be read, or another user can write to it. What cannot be undone is logged.
pub fn undo_left(program: &Path, folder: &Path) -> io::Result<()> {
    let folder = match UndoFolder::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for mut left in folder.left()? {
        left.log.end_rules();
        match WorkerProxy::start(program, left.user.clone(), None) {
            Ok(mut worker) => worker.undo_left(&left.log),
            Err(error) => {
                tracing::error!("cannot start a user worker for what is to be undone: {error}");
                left.log.undo_locally(left.user.as_ref().map(|it| it.uid));
                left.log.undo_dumps_locally();
            }
        }
        folder.remove_left(&left);
    }
    Ok(())
}
