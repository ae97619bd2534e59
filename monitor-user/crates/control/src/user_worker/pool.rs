//! The user workers of a node: one per uid, started when first needed.
//!
//! In: a user. Out: the proxy of that user's worker, and one descriptor that is readable when any
//! worker has sent something.

use super::{User, UserWorker as _, WorkerProxy};
use crate::{ToolId, WorkerRequest};
use rustix::event::epoll;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::{collections::BTreeMap, io, path::PathBuf};

/// This program, even if its file was replaced since it started.
pub const SELF_EXE: &str = "/proc/self/exe";

/// All user workers, by uid.
pub struct WorkerPool {
    /// The executable that runs as user worker.
    program: PathBuf,
    workers: BTreeMap<u32, WorkerProxy>,
    /// The worker pid that is registered with epoll for each uid.
    watched_pids: BTreeMap<u32, u32>,
    epoll_fd: Option<OwnedFd>,
}

impl WorkerPool {
    /// A pool that starts workers from this executable.
    pub fn with_program(program: PathBuf) -> Self {
        Self { program, workers: BTreeMap::new(), watched_pids: BTreeMap::new(), epoll_fd: None }
    }

    /// Starts the worker of a user, unless it runs already.
    pub fn ensure(&mut self, uid: u32, gid: u32) -> io::Result<()> {
        if self.workers.contains_key(&uid) {
            return Ok(());
        }
        let groups = || monitor_sys::users::groups(uid, gid);
        let own = monitor_sys::fsuid::effective_uid();
        let user = (uid != own).then(|| User { uid, gid, groups: groups() });
        let mut worker = WorkerProxy::start(&self.program, user)?;
        // A worker that cannot change to its user exits before it replies.
        let first_reply = worker.request(ToolId(0), WorkerRequest::ForgetTool);
        let need = "the service needs CAP_SETUID and CAP_SETGID to act as other users";
        let _forgotten = first_reply.map_err(|_| io::Error::other(need))?;
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
