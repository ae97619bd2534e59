//! All sessions of this service, and which users may open one.

use super::super::session_processes::SessionLauncher;
use super::copy::CopyContext;
use super::live::LiveSession;
use super::slot::SessionSlots;
use super::task;
use crate::lock::lock;
use crate::policy::Grantee;
use crate::user_shares::UserShare;
use monitor_control::session::{
    JobSocket, Launcher, Phase, Refusal, SessionCgroups, SessionError, SessionPlace, SessionRecord,
    assignments,
};
use monitor_control::user_worker::{SELF_EXE, User as WorkerUser};
use monitor_ninep::User;
use monitor_remote::Connector;
use monitor_sys::fsuid;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Sessions of one user.
const USER_SESSIONS: usize = 32;
/// Sessions of all users except root: each keeps up to 2 MiB of output.
const SESSIONS: usize = 256;
/// How many times as many there may be, with those that end or of which files are open.
const ENDING: usize = 2;

/// How long the end of the service waits for the end of sessions.
const CLOSE_TIME: Duration = Duration::from_secs(3);

/// Which users a service can become, beside its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherUsers {
    /// All: it is root, or has the capabilities for it.
    All,
    /// None.
    None,
}

/// Which users may open sessions, and where the directories are.
#[derive(Clone, Debug)]
pub struct SessionPolicy {
    /// Users and groups.
    pub execute: Vec<Grantee>,
    /// The directory in which each session has one.
    pub parent: PathBuf,
    /// The uid of the service.
    pub own_uid: u32,
    /// Which other users it can become.
    pub others: OtherUsers,
}

impl SessionPolicy {
    /// The policy of this process.
    pub fn new(execute: Vec<Grantee>) -> Self {
        let (parent, own_uid) = (std::env::temp_dir(), fsuid::effective_uid());
        let others = if fsuid::can_change() { OtherUsers::All } else { OtherUsers::None };
        Self { execute, parent, own_uid, others }
    }

    /// Whether a user may execute programs.
    pub fn allows(&self, user: &User) -> bool {
        let is_user = |it: &Grantee| it.includes(user.uid, |gid| user.in_group(gid));
        let can_become = self.others == OtherUsers::All || self.own_uid == user.uid;
        user.uid != super::super::client::NONE_UID && can_become && self.execute.iter().any(is_user)
    }
}

/// All sessions.
pub struct SessionTable {
    policy: SessionPolicy,
    /// What copies of sessions need.
    context: Arc<CopyContext>,
    all: Mutex<Sessions>,
    /// Whether an administrator refuses new sessions.
    is_draining: AtomicBool,
    slots: Arc<SessionSlots>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Sessions {
    by_number: BTreeMap<u32, Arc<LiveSession>>,
    next: u32,
}

impl SessionTable {
    /// No sessions; the connector is for copies of them.
    pub fn new(policy: SessionPolicy, connector: Connector) -> Arc<Self> {
        if !policy.execute.is_empty() {
            SessionCgroups::remove_left();
        }
        let (slots, tasks) = (Arc::default(), Mutex::default());
        let (all, is_draining) = (Mutex::default(), AtomicBool::new(false));
        let context = Arc::new(CopyContext::new(connector));
        Arc::new(Self { policy, context, all, is_draining, slots, tasks })
    }

    /// Whether any user may execute programs.
    pub const fn is_on(&self) -> bool {
        !self.policy.execute.is_empty()
    }

    /// Whether a user may open sessions.
    pub fn allows(&self, user: &User) -> bool {
        self.policy.allows(user)
    }

    /// Sets whether new sessions are refused.
    pub fn set_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Relaxed);
    }

    /// Whether new sessions are refused.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Number of sessions, and of those whose program runs.
    pub fn count(&self) -> (usize, usize) {
        let all = lock(&self.all);
        let runs = |it: &&Arc<LiveSession>| matches!(it.record.phase(), Phase::Running(_));
        (all.by_number.len(), all.by_number.values().filter(runs).count())
    }

    /// The launchers of the sessions that a user may see.
    pub fn launchers(&self, user: &User) -> Vec<SessionLauncher> {
        let launcher = |it: Arc<LiveSession>| {
            let id = it.record.id();
            let job = id.split_once('/').map_or("", |it| it.0).to_owned();
            SessionLauncher { pid: it.launcher.0, number: it.record.number, job }
        };
        self.of_user(user).into_iter().map(launcher).collect()
    }

    /// The session with this number.
    pub fn get(&self, number: u32) -> Option<Arc<LiveSession>> {
        lock(&self.all).by_number.get(&number).map(Arc::clone)
    }

    /// The sessions that a user may see, in the order of their numbers.
    pub fn of_user(&self, user: &User) -> Vec<Arc<LiveSession>> {
        let all = lock(&self.all);
        let is_own = |it: &&Arc<LiveSession>| user.uid == 0 || it.record.user.uid == user.uid;
        all.by_number.values().filter(is_own).map(Arc::clone).collect()
    }

    /// Opens a session for a user, with this environment. What its output costs is charged to the
    /// share.
    ///
    /// # Errors
    ///
    /// When the user may not, has too many, or the launcher cannot be started.
    pub fn open(
        self: &Arc<Self>,
        (user, share): (&User, &Arc<UserShare>),
        env: &[u8],
    ) -> Result<Arc<LiveSession>, SessionError> {
        if !self.allows(user) {
            let why = format!("user {} may not execute programs here (files.execute)", user.name);
            return Err(SessionError::new(Refusal::Denied, why));
        }
        if self.is_draining() {
            let why = "an administrator takes this node out of use: it opens no sessions";
            return Err(SessionError::new(Refusal::TryAgain, why));
        }
        assignments(env).map_err(|it| SessionError { why: format!("env: {}", it.why), ..it })?;
        self.make_room(user.uid)?;
        let limits = (ENDING * USER_SESSIONS, ENDING * SESSIONS);
        let slot = self.slots.take(user.uid, limits).ok_or_else(|| {
            let why = "sessions of this user, or of all, have not ended yet, or clients have \
                       files of them open: clunk them, and try again";
            SessionError::new(Refusal::TryAgain, why)
        })?;
        let worker = WorkerUser { uid: user.uid, gid: user.gid, groups: user.groups.clone() };
        let (launcher, pipes) = Launcher::start(Path::new(SELF_EXE), &worker, &self.policy.parent)?;
        let number = self.next_number();
        let socket = JobSocket::bind(&worker, &self.policy.parent, number)
            .inspect_err(|why| tracing::warn!(number, "a session is not found as a job: {why}"));
        let socket = socket.ok();
        let job = socket.as_ref().map(|(it, _)| (it.id.clone(), it.path.clone()));
        let place = SessionPlace { folder: launcher.folder.clone(), job };
        let record = SessionRecord::new(number, worker, (place, env));
        let (live, run) =
            task::start(record, (launcher, pipes), (share, slot, &self.context), socket)?;
        lock(&self.all).by_number.insert(number, Arc::clone(&live));
        let table = Arc::clone(self);
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move { run.run(|| table.remove(number)).await });
        tracing::info!(uid = user.uid, number, "a session is opened");
        Ok(live)
    }

    /// Ends all sessions, and waits for that; a launcher that takes longer ends by itself.
    pub async fn close(&self) {
        for session in std::mem::take(&mut lock(&self.all).by_number).into_values() {
            session.end_events();
            session.record.end();
        }
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        let ended = async { while tasks.join_next().await.is_some() {} };
        if timeout(CLOSE_TIME, ended).await.is_err() {
            tracing::warn!("not all sessions have ended within {CLOSE_TIME:?}");
        }
    }

    fn remove(&self, number: u32) {
        lock(&self.all).by_number.remove(&number);
    }

    /// A number that no session has; numbers are not used again until all were.
    fn next_number(&self) -> u32 {
        let mut all = lock(&self.all);
        while all.by_number.contains_key(&all.next) {
            all.next = all.next.wrapping_add(1);
        }
        let number = all.next;
        all.next = number.wrapping_add(1);
        number
    }

    /// Checks the limits; a session that nothing keeps makes room.
    fn make_room(&self, uid: u32) -> Result<(), SessionError> {
        let mut all = lock(&self.all);
        let of = |all: &Sessions, is_counted: &dyn Fn(u32) -> bool| {
            all.by_number.values().filter(|it| is_counted(it.record.user.uid)).count()
        };
        let own = of(&all, &|it| it == uid);
        let others = of(&all, &|it| it != 0);
        if own < USER_SESSIONS && (uid == 0 || others < SESSIONS) {
            return Ok(());
        }
        let is_free = |it: &&Arc<LiveSession>| it.record.user.uid == uid && it.record.is_unused();
        let unused = all.by_number.values().find(is_free).map(|it| it.record.number);
        if let Some(session) = unused.and_then(|number| all.by_number.remove(&number)) {
            session.record.end();
            return Ok(());
        }
        let why = format!(
            "{own} sessions of this user and {others} of all are open, of at most {USER_SESSIONS} \
             and {SESSIONS}: wipe one"
        );
        Err(SessionError::new(Refusal::TryAgain, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(uid: u32, gid: u32, groups: &[u32]) -> User {
        User { uid, gid, groups: groups.to_vec(), name: uid.to_string() }
    }

    fn policy(execute: Vec<Grantee>, others: OtherUsers) -> SessionPolicy {
        SessionPolicy { execute, parent: "/tmp".into(), own_uid: 1000, others }
    }

    #[test]
    fn only_users_of_the_groups_may_execute() {
        let policy = |others| policy(vec![Grantee::Group(50)], others);
        let all = policy(OtherUsers::All);
        assert!(all.allows(&user(1000, 50, &[])));
        assert!(all.allows(&user(1001, 100, &[7, 50])));
        assert!(!all.allows(&user(1000, 100, &[7])));
        // Root is in no group by itself, and none is no user.
        assert!(!all.allows(&user(0, 0, &[])));
        assert!(!all.allows(&user(u32::MAX, 50, &[50])));
        // A service without rights over others executes for its own user only.
        let own = policy(OtherUsers::None);
        assert!(own.allows(&user(1000, 50, &[])));
        assert!(!own.allows(&user(1001, 50, &[])));
    }

    #[test]
    fn without_groups_no_user_may_execute() {
        let none = policy(Vec::new(), OtherUsers::All);
        assert!(!none.allows(&user(0, 0, &[])) && !none.allows(&user(7, 7, &[])));
    }
}
