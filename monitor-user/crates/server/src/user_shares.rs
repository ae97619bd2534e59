//! What one user may hold of the daemon: lines that wait to be handled, and unread bytes.
//!
//! In: lines as they arrive, bytes as they are queued and sent. Out: permits, and the users that
//! are over their share. The counting is per user, because a user can open many connections; root
//! is counted, but not limited.

use crate::lock::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Lines of one user that wait to be handled, together.
const LINES: usize = 16;

/// The shares of all users with connections.
pub struct UserShares {
    /// Maximum bytes of one user.
    limit: usize,
    users: HashMap<u32, Weak<UserShare>>,
    freed: Arc<Notify>,
}

/// The share of one user. Counts what all its connections hold.
pub struct UserShare {
    uid: u32,
    limit: usize,
    bytes: AtomicUsize,
    lines: Arc<Semaphore>,
    /// Wakes its own connections …
    room: Notify,
    /// … and the daemon, when it falls below its limit.
    freed: Arc<Notify>,
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl UserShares {
    /// No users; each will have a share of so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, users: HashMap::new(), freed: Arc::default() }
    }

    /// Sets the limit of users that connect from now on.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The share of a user.
    pub fn share(&mut self, uid: u32) -> Arc<UserShare> {
        if let Some(share) = self.users.get(&uid).and_then(Weak::upgrade) {
            return share;
        }
        self.users.retain(|_, it| it.strong_count() > 0);
        let limit = if uid == 0 { usize::MAX } else { self.limit };
        let share = Arc::new(UserShare::new((uid, limit), Arc::clone(&self.freed)));
        self.users.insert(uid, Arc::downgrade(&share));
        share
    }

    /// The users that are over their share.
    pub fn over(&self) -> impl Iterator<Item = u32> {
        let shares = self.users.iter().filter_map(|(uid, it)| Some((uid, it.upgrade()?)));
        shares.filter(|(_, it)| it.is_over()).map(|(uid, _)| *uid)
    }

    /// Notified when a user falls below its limit.
    pub fn freed(&self) -> Arc<Notify> {
        Arc::clone(&self.freed)
    }
}

impl UserShare {
    fn new((uid, limit): (u32, usize), freed: Arc<Notify>) -> Self {
        let lines = Arc::new(Semaphore::new(LINES));
        let (bytes, room, refused) = (AtomicUsize::new(0), Notify::new(), Mutex::default());
        Self { uid, limit, bytes, lines, room, freed, refused }
    }

    /// A share of its own, for tests.
    #[cfg(test)]
    pub fn of_test(limit: usize) -> Arc<Self> {
        Arc::new(Self::new((7, limit), Arc::default()))
    }

    /// Whether its user is over it.
    pub fn is_over(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limit
    }

    /// Adds bytes that the user holds.
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes them again.
    pub fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= self.limit && before - bytes < self.limit {
            self.room.notify_waiters();
            self.freed.notify_one();
        }
    }

    /// Waits until the user is below its limit.
    pub async fn wait_for_room(&self) {
        loop {
            // Created before the check, so that no notification in between is missed.
            let room = self.room.notified();
            if !self.is_over() {
                return;
            }
            room.await;
        }
    }

    /// Waits until a further line of the user may be handled; dropped when that is done.
    pub async fn admit_line(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.lines).acquire_owned().await.ok()
    }

    /// Why nothing more is taken from the user; counts the refusal.
    pub fn refusal(&self) -> String {
        *lock(&self.refused).entry("user bytes").or_default() += 1;
        let (uid, max) = (self.uid, self.limit);
        format!(
            "the connections of user {uid} hold {max} bytes of unread replies, samples and \
             unfinished lines, the limit \"user_bytes\": read them, or close some"
        )
    }

    /// Takes the refusals since the last call, by kind.
    pub fn take_refused(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut *lock(&self.refused))
    }
}

/// The bytes of the unfinished line of one connection.
pub struct UnfinishedBytes<'a> {
    share: &'a UserShare,
    bytes: usize,
}

impl<'a> UnfinishedBytes<'a> {
    /// None yet.
    pub const fn new(share: &'a UserShare) -> Self {
        Self { share, bytes: 0 }
    }

    /// Sets them.
    pub fn set(&mut self, bytes: usize) {
        self.share.add(bytes);
        self.share.remove(std::mem::replace(&mut self.bytes, bytes));
    }
}

impl Drop for UnfinishedBytes<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_user_share_its_limit_and_root_has_none() {
        let mut shares = UserShares::new(10);
        let (one, same, root) = (shares.share(7), shares.share(7), shares.share(0));
        one.add(6);
        same.add(6);
        root.add(1000);
        assert_eq!(shares.over().collect::<Vec<_>>(), [7]);
        same.remove(3);
        assert_eq!(shares.over().count(), 0);
        drop((one, same));
        assert!(!shares.share(7).is_over());
    }

    #[test]
    fn an_unfinished_line_is_counted_until_it_is_complete() {
        let share = UserShare::of_test(10);
        let mut line = UnfinishedBytes::new(&share);
        line.set(9);
        assert!(!share.is_over());
        line.set(12);
        assert!(share.is_over());
        drop(line);
        assert!(!share.is_over());
    }
}
