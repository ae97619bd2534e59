//! How much of something each user may have: a burst at once, and then one after each interval.

use super::Ns;
use std::collections::BTreeMap;

/// The budgets of all users. Root has no limit.
#[derive(Debug)]
pub struct UserBudget {
    burst: u64,
    interval: Ns,
    /// When all that a user has taken is available again.
    full_at: BTreeMap<u32, Ns>,
}

impl UserBudget {
    /// Users may have `burst` at once, and a further one after each `interval`.
    pub const fn new(burst: u64, interval: Ns) -> Self {
        Self { burst, interval, full_at: BTreeMap::new() }
    }

    /// Takes `n` for a user at this time; takes nothing, and returns false, if that is too much.
    pub fn take(&mut self, uid: u32, n: usize, now: Ns) -> bool {
        if uid == 0 || n == 0 {
            return true;
        }
        self.full_at.retain(|_, at| *at > now);
        let full_at = self.full_at.get(&uid).copied().unwrap_or(now);
        let next = Ns(full_at.0.saturating_add(self.interval.0.saturating_mul(n as u64)));
        let fits = next.0 - now.0 <= self.interval.0 * self.burst;
        if fits {
            self.full_at.insert(uid, next);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_burst_and_then_one_after_each_interval() {
        let (mut budget, at) = (UserBudget::new(256, Ns(10)), |turn: u64| Ns(10 * turn));
        assert!(budget.take(1000, 250, at(10)));
        assert!(!budget.take(1000, 7, at(10)));
        assert!(budget.take(1000, 7, at(11)));
        assert!(!budget.take(1000, 1, at(11)));
        assert!(budget.take(1001, 256, at(11)), "another user has its own");
        assert!(budget.take(0, 4096, at(11)) && budget.take(0, 4096, at(11)));
        assert!(!budget.take(1000, 257, at(10_000)));
        assert!(budget.take(1000, 256, at(10_000)));
        assert!(!budget.take(1000, usize::MAX, at(20_000)));
    }
}
