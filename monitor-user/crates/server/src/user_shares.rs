//! What one user may take of the daemon: lines that wait to be handled, processor time for them,
//! and unread bytes.
//!
//! In: lines as they arrive, what they cost, bytes as they are queued and sent. Out: permits, and
//! the users that are over their share. The counting is per user, because a user can open many
//! connections; root is counted, but not limited. What readings cost is counted in `monitors`.

use crate::lock::lock;
use monitor_model::Ns;
use monitor_sys::{clock, fsuid};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// Lines of one user that wait to be handled: others wait for these at most.
const LINES: usize = 1;

/// Processor time that a user may save up for its lines.
const SAVED: Ns = Ns(200_000_000);

/// How often a line that waits looks whether its client has left.
const LOOK: Duration = Duration::from_secs(1);

/// The limits of one user.
#[derive(Clone, Copy, Debug)]
pub struct ShareLimits {
    /// Maximum bytes.
    pub bytes: usize,
    /// Share of one processor that its lines may take.
    pub processor: f64,
}

/// The shares of all users with connections, and of those that left with less than they may save
/// up: a user that comes back does not start again.
pub struct UserShares {
    limits: ShareLimits,
    /// The user of the daemon; its lines may take what they need.
    own_uid: u32,
    users: HashMap<u32, Arc<UserShare>>,
    freed: Arc<Notify>,
}

/// The share of one user. Counts what all its connections hold.
pub struct UserShare {
    uid: u32,
    limits: ShareLimits,
    bytes: AtomicUsize,
    credit: Mutex<LineCredit>,
    lines: Arc<Semaphore>,
    /// Wakes its own connections …
    room: Notify,
    /// … and the daemon, when it falls below its limit.
    freed: Arc<Notify>,
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

/// Processor time for lines.
#[derive(Clone, Copy)]
struct LineCredit {
    /// What may still be used; below zero after a line that cost more.
    left: i64,
    /// When that was computed.
    at: Ns,
}

impl UserShares {
    /// No users.
    pub fn new(limits: ShareLimits) -> Self {
        let own_uid = fsuid::effective_uid();
        Self { limits, own_uid, users: HashMap::new(), freed: Arc::default() }
    }

    /// Sets the limits of users that connect from now on.
    pub const fn set_limits(&mut self, limits: ShareLimits) {
        self.limits = limits;
    }

    /// The share of a user.
    pub fn share(&mut self, uid: u32) -> Arc<UserShare> {
        if let Some(share) = self.users.get(&uid).filter(|it| has_connections(it)) {
            return Arc::clone(share);
        }
        let now = clock::boot();
        self.users.retain(|_, it| has_connections(it) || !it.has_saved_all(now));
        let bytes = if uid == 0 { usize::MAX } else { self.limits.bytes };
        let is_free = uid == 0 || uid == self.own_uid;
        let processor = if is_free { f64::INFINITY } else { self.limits.processor };
        let limits = ShareLimits { bytes, processor };
        let share = UserShare::new((uid, limits), Arc::clone(&self.freed));
        if let Some(left) = self.users.get(&uid) {
            *lock(&share.credit) = *lock(&left.credit);
        }
        let share = Arc::new(share);
        self.users.insert(uid, Arc::clone(&share));
        share
    }

    /// The users that are over their share.
    pub fn over(&self) -> impl Iterator<Item = u32> {
        self.users.iter().filter(|(_, it)| it.is_over()).map(|(uid, _)| *uid)
    }

    /// Notified when a user falls below its limit.
    pub fn freed(&self) -> Arc<Notify> {
        Arc::clone(&self.freed)
    }
}

impl UserShare {
    fn new((uid, limits): (u32, ShareLimits), freed: Arc<Notify>) -> Self {
        let lines = Arc::new(Semaphore::new(LINES));
        let (bytes, room, refused) = (AtomicUsize::new(0), Notify::new(), Mutex::default());
        let credit = Mutex::new(LineCredit { left: signed(SAVED), at: Ns(0) });
        Self { uid, limits, bytes, credit, lines, room, freed, refused }
    }

    /// The share of another machine, whose users are not known.
    pub fn of_address(limits: ShareLimits) -> Self {
        Self::new((u32::MAX, limits), Arc::default())
    }

    /// A share of its own, for tests.
    #[cfg(test)]
    pub fn of_test(bytes: usize) -> Arc<Self> {
        Arc::new(Self::new((7, ShareLimits { bytes, processor: 0.1 }), Arc::default()))
    }

    /// Whether its user is over it.
    pub fn is_over(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.limits.bytes
    }

    /// Adds bytes that the user holds.
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Removes them again.
    pub fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= self.limits.bytes && before - bytes < self.limits.bytes {
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

    /// Waits until a further line of the user may be handled. The permit is dropped when that is
    /// done; none if the client has left meanwhile.
    pub async fn admit_line(&self, has_left: impl Fn() -> bool) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.lines).acquire_owned().await.ok();
        while let Some(wait) = self.line_wait(clock::boot()) {
            if has_left() {
                return None;
            }
            sleep(Duration::from_nanos(wait.0).min(LOOK)).await;
        }
        permit
    }

    /// Charges the processor time of a line.
    pub fn charge(&self, cost: Ns) {
        let mut credit = lock(&self.credit);
        credit.left = credit.left.saturating_sub(signed(cost));
    }

    /// Charges the processor time of this thread since then, twice: what the kernel does for the
    /// socket or the pipe costs as much again.
    pub fn charge_socket(&self, began: Ns) {
        self.charge(Ns(clock::thread_cpu().since(began).0 * 2));
    }

    /// How long the next line waits for those before it; `None` if it does not.
    fn line_wait(&self, now: Ns) -> Option<Ns> {
        let overdraft = self.credit(now)?.min(0).unsigned_abs();
        (overdraft > 0).then(|| Ns((overdraft as f64 / self.limits.processor) as u64 + 1))
    }

    /// Whether the user may use all that can be saved up.
    pub fn has_saved_all(&self, now: Ns) -> bool {
        self.credit(now).is_none_or(|left| left == signed(SAVED))
    }

    /// The nanoseconds of processor time that may be used now; none, if there is no limit.
    fn credit(&self, now: Ns) -> Option<i64> {
        if self.limits.processor.is_infinite() {
            return None;
        }
        let mut credit = lock(&self.credit);
        let earned = now.since(credit.at).0 as f64 * self.limits.processor;
        credit.left = credit.left.saturating_add(earned as i64).min(signed(SAVED));
        credit.at = now;
        Some(credit.left)
    }

    /// Why nothing more is taken from the user; counts the refusal.
    pub fn refusal(&self) -> String {
        *lock(&self.refused).entry("user bytes").or_default() += 1;
        let (uid, max) = (self.uid, self.limits.bytes);
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

/// Whether anything but the list of users has a share.
fn has_connections(share: &Arc<UserShare>) -> bool {
    Arc::strong_count(share) > 1
}

fn signed(ns: Ns) -> i64 {
    i64::try_from(ns.0).unwrap_or(i64::MAX)
}

/// Bytes that one connection holds: of an unfinished line, or of an answer that waits.
pub struct HeldBytes<'a> {
    share: &'a UserShare,
    bytes: usize,
}

impl<'a> HeldBytes<'a> {
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

impl Drop for HeldBytes<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn connections_of_a_user_share_its_limit_and_root_has_none() {
        let mut shares = UserShares::new(ShareLimits { bytes: 10, processor: 0.1 });
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
    fn lines_that_took_more_than_their_share_of_the_processor_wait() {
        let share = UserShare::of_test(10);
        share.charge(SAVED);
        assert_eq!(share.line_wait(Ns(0)), None);
        share.charge(Ns(50_000_000));
        assert_eq!(share.line_wait(Ns(0)), Some(Ns(500_000_001)));
        assert_eq!(share.line_wait(Ns(400_000_000)), Some(Ns(100_000_001)));
        assert_eq!(share.line_wait(Ns(500_000_001)), None);
    }

    #[test]
    fn a_user_that_comes_back_still_waits_for_what_its_lines_took() {
        let mut shares = UserShares::new(ShareLimits { bytes: 10, processor: 0.1 });
        let first = shares.share(7);
        assert_eq!(first.line_wait(clock::boot()), None);
        first.charge(Ns(1_000_000_000_000));
        drop(first);
        let _of_another = shares.share(8);
        assert!(shares.share(7).line_wait(clock::boot()).is_some());
        assert_eq!(shares.share(9).line_wait(clock::boot()), None);
        // Of users that left, only those that have less than all are known.
        let _of_another = shares.share(10);
        assert_eq!(shares.users.keys().copied().collect::<BTreeSet<_>>(), [7, 8, 10].into());
    }

    #[test]
    fn an_unfinished_line_is_counted_until_it_is_complete() {
        let share = UserShare::of_test(10);
        let mut line = HeldBytes::new(&share);
        line.set(9);
        assert!(!share.is_over());
        line.set(12);
        assert!(share.is_over());
        drop(line);
        assert!(!share.is_over());
    }
}
