//! The user workers of a node: one per uid, started when first needed.
//!
//! In: a user. Out: the proxy of that user's worker, and one descriptor that is readable when any
//! worker has sent something.

use super::undo_file::{LeftUndo, UndoFolder};
use super::{User, WorkerProxy, WorkerRole, proxy::shutdown::end_all};
use crate::ControlError;
use rustix::event::epoll;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, io, path::Path, path::PathBuf, sync::Arc};

/// Time before the service listens for everything that a former service has left in the processes
/// of one user.
const UNDO_TIME: Duration = Duration::from_secs(1);
/// Time for what is undone while the service runs.
const LATE_UNDO_TIME: Duration = Duration::from_secs(60);

/// All user workers, by uid.
pub struct WorkerPool {
    /// The executable that runs as user worker.
    program: PathBuf,
    role: WorkerRole,
    /// Where undo logs are written, if they are.
    undo_folder: Option<PathBuf>,
    workers: BTreeMap<u32, WorkerProxy>,
    /// What is registered with epoll for each uid.
    watched: BTreeMap<u32, Watched>,
    epoll_fd: Option<OwnedFd>,
}

/// What of a worker is registered with epoll: its socket, perhaps also for writing.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Watched {
    pid: u32,
    writes: bool,
    is_lost: bool,
}

impl WorkerPool {
    /// A pool that starts workers from this executable. With a folder, what is to be undone is
    /// written there before it is done.
    pub fn new(program: PathBuf, undo_folder: Option<PathBuf>) -> Self {
        Self::with_role(program, WorkerRole::Actor, undo_folder)
    }

    /// A pool of workers that read files.
    pub fn readers(program: PathBuf) -> Self {
        Self::with_role(program, WorkerRole::Reader, None)
    }

    fn with_role(program: PathBuf, role: WorkerRole, undo_folder: Option<PathBuf>) -> Self {
        let (workers, watched) = (BTreeMap::new(), BTreeMap::new());
        Self { program, role, undo_folder, workers, watched, epoll_fd: None }
    }

    /// Starts the worker of a user, unless it runs already. A worker that cannot change to its user
    /// exits before it replies, and its requests are refused.
    pub fn ensure(&mut self, uid: u32, gid: u32) -> io::Result<()> {
        if let Some(worker) = self.workers.get_mut(&uid) {
            worker.revive()?;
            self.watch(uid);
            return Ok(());
        }
        let groups = || monitor_sys::users::groups(uid, gid);
        let own = monitor_sys::fsuid::effective_uid();
        let user = (uid != own).then(|| User { uid, gid, groups: groups() });
        let folder = self.undo_folder.as_deref().map(UndoFolder::create).transpose()?;
        let worker = match self.role {
            WorkerRole::Actor | WorkerRole::Launcher => {
                WorkerProxy::start(&self.program, user, folder.map(Arc::new))?
            }
            WorkerRole::Reader => WorkerProxy::start_reader(&self.program, user)?,
        };
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

    /// When a worker must be polled at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.workers.values().filter_map(WorkerProxy::deadline).min()
    }

    /// Registers the worker of a user with epoll, also after a restart, and while it has not
    /// accepted all requests.
    pub fn watch(&mut self, uid: u32) {
        let Some(worker) = self.workers.get(&uid) else { return };
        let writes = worker.has_unsent();
        let wanted = Watched { pid: worker.pid(), writes, is_lost: worker.is_lost() };
        let before = self.watched.insert(uid, wanted);
        if before == Some(wanted) {
            return;
        }
        if self.epoll_fd.is_none() {
            self.epoll_fd = epoll::create(epoll::CreateFlags::CLOEXEC).ok();
        }
        if let Some(epoll_fd) = &self.epoll_fd {
            let data = epoll::EventData::new_u64(u64::from(uid));
            let write = if writes { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let flags = epoll::EventFlags::IN | write;
            // If this fails, its messages are only read at the next wake-up.
            let _deaf = match before {
                _ if worker.is_lost() => epoll::delete(epoll_fd, worker),
                Some(before) if before.pid == wanted.pid => {
                    epoll::modify(epoll_fd, worker, data, flags)
                }
                _ => epoll::add(epoll_fd, worker, data, flags),
            };
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        end_all(&mut Vec::from_iter(self.workers.values_mut()));
    }
}

/// Waits for a user worker while the service runs. Its user may have stopped it, so not for ever.
fn undo_later(mut worker: WorkerProxy, folder: &Arc<UndoFolder>, left: LeftUndo) {
    let folder = Arc::clone(folder);
    let wait = move || {
        if let Err(error) = worker.wait_all(LATE_UNDO_TIME) {
            tracing::error!("not all that a former service had done is undone: {error}");
        }
        folder.remove_left(&left);
    };
    if let Err(error) = std::thread::Builder::new().name("undo".to_owned()).spawn(wait) {
        tracing::error!("cannot start a thread for what is to be undone: {error}");
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
        other => Arc::new(other?),
    };
    for mut left in folder.left()? {
        left.log.end_rules();
        match WorkerProxy::start(program, left.user.clone(), None) {
            Ok(mut worker) => {
                worker.undo_left(&left.log);
                if let Err(ControlError::TimedOut(_)) = worker.wait_all(UNDO_TIME) {
                    undo_later(worker, &folder, left);
                    continue;
                }
            }
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
