//! The user workers of a node: one per uid, started when first needed.
//!
//! In: a user. Out: the proxy of that user's worker, and one descriptor that is readable when any
//! worker has sent something.

use super::proxy::{WorkerRole, end_all};
use super::{User, WorkerProxy};
use rustix::event::epoll;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::{collections::BTreeMap, io, path::PathBuf, time::Instant};

/// This program, even if its file was replaced since it started.
pub const SELF_EXE: &str = "/proc/self/exe";

/// All user workers, by uid.
pub struct WorkerPool {
    /// The executable that runs as user worker.
    program: PathBuf,
    role: WorkerRole,
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
    /// A pool that starts workers for a purpose from this executable.
    pub fn with_program(program: PathBuf, role: WorkerRole) -> Self {
        let (workers, watched) = (BTreeMap::new(), BTreeMap::new());
        Self { program, role, workers, watched, epoll_fd: None }
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
        let worker = WorkerProxy::with_role(&self.program, user, self.role)?;
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
