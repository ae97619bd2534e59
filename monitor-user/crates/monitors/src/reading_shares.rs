//! What the readings of each user may take: time of the processor, unread output, kept memory.
//!
//! In: ticks of monitors, the cost of readings as it was measured, the users whose output is not
//! read. Out: the monitors that join the next reading. A user whose credit is used up waits, which
//! extends the periods of its monitors; root and the daemon's own user do not wait. Monitors of
//! one user that are due together join in slices, so that others wait for a slice at most.

use super::{MonitorKey, timer_queue::TimerQueue};
use monitor_model::Ns;
use std::collections::{BTreeMap, HashSet};

/// Processor time of the monitors of one user in one reading.
const SLICE: Ns = Ns(2_000_000);
/// Bytes of their output in one reading.
const SLICE_BYTES: u64 = 2 << 20;
/// Monitors of a user in its first reading, before their cost is known.
const FIRST_SLICE: u64 = 8;

/// The processor time that users may ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadingBudget {
    /// Its share of the machine, all processors together; for the notes.
    pub share: f64,
    /// The same in each second, for all users together.
    pub per_second: Ns,
    /// What a user may save up.
    pub window: Ns,
    /// The user of the daemon, which is not limited; nor is root.
    pub own_uid: u32,
}

/// What a monitor keeps between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptMemory {
    /// The time of the reading whose counters it keeps, and their bytes; shared by monitors of the
    /// same reading.
    pub reading: Option<(Ns, usize)>,
    /// Bytes of its call, and of its events while it is detached.
    pub other: usize,
}

/// The readings of all users.
#[derive(Default)]
pub struct ReadingShares {
    users: BTreeMap<u32, UserReadings>,
    budget: Option<ReadingBudget>,
    /// Users with as much unread output as they may have.
    unread: HashSet<u32>,
}

#[derive(Default)]
struct UserReadings {
    ticks: TimerQueue,
    /// Processor time that it may still use; below zero after a reading that cost more.
    credit: i64,
    /// When that was computed.
    counted_at: Ns,
    /// Averages of one monitor in one reading.
    cost: u64,
    bytes: u64,
    /// Kept readings: monitors that keep it, and its bytes.
    kept: BTreeMap<Ns, (usize, usize)>,
    kept_bytes: usize,
}

impl ReadingShares {
    /// Sets the budget.
    pub const fn set_budget(&mut self, budget: ReadingBudget) {
        self.budget = Some(budget);
    }

    /// The budget.
    pub const fn budget(&self) -> Option<&ReadingBudget> {
        self.budget.as_ref()
    }

    /// Sets the users whose monitors are not read until their clients have read what they have.
    pub fn set_unread(&mut self, users: impl IntoIterator<Item = u32>) {
        self.unread = users.into_iter().collect();
    }

    /// Sets or removes the tick of a monitor.
    pub fn set_tick(&mut self, (uid, key): (u32, MonitorKey), at: Option<Ns>) {
        self.user(uid).ticks.set(key, at);
    }

    /// The readings of a user; a new one has its full credit.
    fn user(&mut self, uid: u32) -> &mut UserReadings {
        let credit = self.budget.map_or(0, |it| signed(self.per_user(&it, it.window)));
        let new = || UserReadings { credit, ..UserReadings::default() };
        self.users.entry(uid).or_insert_with(new)
    }

    /// Forgets a user without monitors, unless it has used more than its credit.
    pub fn forget_idle(&mut self, uid: u32, now: Ns) {
        self.add_credit(uid, now);
        let is_idle = |it: &UserReadings| it.ticks.first().is_none() && it.kept.is_empty();
        if self.users.get(&uid).is_some_and(|it| is_idle(it) && it.credit >= 0) {
            self.users.remove(&uid);
        }
    }

    /// When the next reading is due.
    pub fn due(&self) -> Option<Ns> {
        let due =
            |(uid, it): (&u32, &UserReadings)| Some(it.ticks.first()?.max(self.ready_at(*uid)?));
        self.users.iter().filter_map(due).min()
    }

    /// When the credit of a user allows the next reading; `None` while its output is not read.
    pub fn ready_at(&self, uid: u32) -> Option<Ns> {
        if self.unread.contains(&uid) {
            return None;
        }
        let (Some(budget), Some(user)) = (self.limit_of(uid), self.users.get(&uid)) else {
            return Some(Ns(0));
        };
        if user.credit >= 0 {
            return Some(Ns(0));
        }
        let per_second = self.per_user(budget, Ns(1_000_000_000)).max(1);
        let overdraft = user.credit.unsigned_abs();
        let wait = overdraft.saturating_mul(1_000_000_000).div_ceil(per_second);
        Some(Ns(user.counted_at.0.saturating_add(wait)))
    }

    /// The monitors that join a reading at `now`: of each user those that are due first, with the
    /// time since when the user has had credit.
    pub fn take_due(&mut self, now: Ns, slack: Ns) -> Vec<(MonitorKey, Ns)> {
        let mut keys = Vec::new();
        for (&uid, user) in &self.users {
            let Some(ready_at) = self.ready_at(uid).filter(|at| *at <= now) else { continue };
            let until = Ns(now.0.saturating_add(slack.0));
            let most = self.limit_of(uid).map_or(usize::MAX, |_| user.slice());
            keys.extend(user.ticks.first_until(until, most).map(|key| (key, ready_at)));
        }
        keys.sort_unstable();
        keys
    }

    /// Charges a user what a monitor has cost in a reading.
    pub fn charge(&mut self, (uid, now): (u32, Ns), cost: Ns, bytes: usize) {
        self.add_credit(uid, now);
        let user = self.user(uid);
        user.credit = user.credit.saturating_sub(signed(cost.0));
        user.cost = average(user.cost, cost.0);
        user.bytes = average(user.bytes, bytes as u64);
    }

    /// Replaces what a monitor keeps, and returns what its user then keeps.
    pub fn keep(&mut self, uid: u32, before: KeptMemory, now: KeptMemory) -> usize {
        let Some(user) = self.users.get_mut(&uid) else { return 0 };
        user.kept_bytes = (user.kept_bytes + now.other).saturating_sub(before.other);
        if let Some((at, bytes)) = now.reading {
            let entry = user.kept.entry(at).or_insert((0, bytes));
            entry.0 += 1;
            user.kept_bytes += if entry.0 == 1 { bytes } else { 0 };
        }
        if let Some((at, _)) = before.reading
            && let Some(entry) = user.kept.get_mut(&at)
        {
            entry.0 -= 1;
            if entry.0 == 0 {
                user.kept_bytes = user.kept_bytes.saturating_sub(entry.1);
                user.kept.remove(&at);
            }
        }
        user.kept_bytes
    }

    /// Bytes that the monitors of a user keep.
    pub fn kept_bytes(&self, uid: u32) -> usize {
        self.users.get(&uid).map_or(0, |it| it.kept_bytes)
    }

    /// The budget that limits a user, if it is limited.
    fn limit_of(&self, uid: u32) -> Option<&ReadingBudget> {
        self.budget.as_ref().filter(|it| uid != 0 && uid != it.own_uid)
    }

    /// The part of one user of the budget in a time.
    fn per_user(&self, budget: &ReadingBudget, time: Ns) -> u64 {
        let is_active = |(uid, it): &(&u32, &UserReadings)| {
            it.ticks.first().is_some() && self.limit_of(**uid).is_some()
        };
        let users = self.users.iter().filter(is_active).count().max(1) as u64;
        let all = u128::from(budget.per_second.0) * u128::from(time.0) / 1_000_000_000;
        u64::try_from(all).unwrap_or(u64::MAX) / users
    }

    fn add_credit(&mut self, uid: u32, now: Ns) {
        let Some(budget) = self.limit_of(uid).copied() else { return };
        let most = signed(self.per_user(&budget, budget.window));
        let since = self.users.get(&uid).map_or(Ns(0), |it| now.since(it.counted_at));
        let earned = signed(self.per_user(&budget, since));
        if let Some(user) = self.users.get_mut(&uid) {
            user.credit = user.credit.saturating_add(earned).min(most);
            user.counted_at = now;
        }
    }
}

impl UserReadings {
    /// How many of its monitors join one reading.
    fn slice(&self) -> usize {
        if self.cost == 0 {
            return FIRST_SLICE as usize;
        }
        let most = (SLICE.0 / self.cost).min(SLICE_BYTES / self.bytes.max(1)).max(1);
        usize::try_from(most).unwrap_or(usize::MAX)
    }
}

fn average(before: u64, next: u64) -> u64 {
    if before == 0 { next } else { before - before / 8 + next / 8 }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Ten milliseconds of processor time a second, for all users but root.
    fn shares() -> ReadingShares {
        let mut shares = ReadingShares::default();
        let (per_second, window) = (Ns(10 * MS), Ns(1_000 * MS));
        shares.set_budget(ReadingBudget { share: 0.005, per_second, window, own_uid: 0 });
        shares
    }

    #[test]
    fn a_user_without_credit_waits_and_others_do_not() {
        let mut shares = shares();
        for uid in [0, 7, 8] {
            shares.set_tick((uid, uid.into()), Some(Ns(0)));
            shares.charge((uid, Ns(0)), Ns(if uid == 8 { 0 } else { 15 * MS }), 1);
        }
        let ready = |uid| shares.ready_at(uid);
        // It has ten of the fifteen, and the two users earn ten in a second.
        assert_eq!((ready(0), ready(8)), (Some(Ns(0)), Some(Ns(0))));
        assert_eq!(ready(7), Some(Ns(1_000 * MS)));
        let keys: Vec<_> = shares.take_due(Ns(MS), Ns(0)).iter().map(|it| it.0).collect();
        assert_eq!(keys, [0, 8]);
    }

    #[test]
    fn monitors_of_a_user_join_in_slices_in_the_order_of_their_ticks() {
        let mut shares = shares();
        (0..100).for_each(|key| shares.set_tick((7, key), Some(Ns(100 - key))));
        assert_eq!(shares.take_due(Ns(100), Ns(0)).len(), 8);
        shares.charge((7, Ns(0)), Ns(MS / 2), 1 << 19);
        let keys: Vec<_> = shares.take_due(Ns(100), Ns(0)).iter().map(|it| it.0).collect();
        assert_eq!(keys, [96, 97, 98, 99]);
    }

    #[test]
    fn a_user_whose_output_is_not_read_is_not_read_for() {
        let mut shares = shares();
        shares.set_tick((7, 1), Some(Ns(5)));
        shares.set_unread([7]);
        assert_eq!((shares.due(), shares.take_due(Ns(9), Ns(0))), (None, Vec::new()));
        shares.set_unread([]);
        assert_eq!(shares.due(), Some(Ns(5)));
    }

    #[test]
    fn a_reading_that_several_monitors_keep_counts_once() {
        let mut shares = shares();
        shares.set_tick((7, 1), Some(Ns(5)));
        let nothing = KeptMemory::default();
        let first = KeptMemory { reading: Some((Ns(1), 100)), other: 0 };
        let second = KeptMemory { reading: Some((Ns(2), 110)), other: 30 };
        assert_eq!(shares.keep(7, nothing, first), 100);
        assert_eq!(shares.keep(7, nothing, first), 100);
        assert_eq!(shares.keep(7, first, second), 240);
        assert_eq!(shares.keep(7, first, nothing), 140);
        assert_eq!(shares.keep(7, second, nothing), 0);
    }
}
