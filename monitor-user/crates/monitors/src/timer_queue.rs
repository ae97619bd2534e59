//! A timer queue: at most one time for each key.
//!
//! In: a time for a key, or none. Out: the first time, and the keys due until a time. Operations
//! cost the logarithm of the number of keys: with a thousand monitors the engine wakes hundreds of
//! times a second, and must not scan all of them.

use super::MonitorKey;
use monitor_model::Ns;
use std::collections::{BTreeSet, HashMap};

/// Times by key.
#[derive(Default)]
pub struct TimerQueue {
    times: HashMap<MonitorKey, Ns>,
    order: BTreeSet<(Ns, MonitorKey)>,
}

impl TimerQueue {
    /// Sets or removes the time of a key.
    pub fn set(&mut self, key: MonitorKey, at: Option<Ns>) {
        let before = match at {
            Some(at) => self.times.insert(key, at),
            None => self.times.remove(&key),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, key));
        }
        self.order.extend(at.map(|at| (at, key)));
    }

    /// The first time.
    pub fn first(&self) -> Option<Ns> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The keys whose time is not after `to`, as many as these, in the order of their times.
    pub fn first_until(&self, to: Ns, most: usize) -> impl Iterator<Item = MonitorKey> {
        self.order.iter().take_while(move |(at, _)| *at <= to).take(most).map(|(_, key)| *key)
    }

    /// The keys whose time is not after `to`, in the order of keys.
    pub fn due_until(&self, to: Ns) -> Vec<MonitorKey> {
        let mut keys: Vec<MonitorKey> =
            self.order.iter().take_while(|(at, _)| *at <= to).map(|(_, key)| *key).collect();
        keys.sort_unstable();
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_time() {
        let mut queue = TimerQueue::default();
        for at in [5, 3, 3, 9] {
            queue.set(1, Some(Ns(at)));
            assert_eq!(queue.first(), Some(Ns(at)));
        }
        queue.set(1, None);
        assert_eq!(queue.first(), None);
    }

    #[test]
    fn keys_due_until_a_time_are_in_the_order_of_keys() {
        let mut queue = TimerQueue::default();
        for (key, at) in [(7, 10), (3, 20), (5, 10), (1, 30)] {
            queue.set(key, Some(Ns(at)));
        }
        assert_eq!(queue.due_until(Ns(20)), [3, 5, 7]);
        assert!(queue.due_until(Ns(9)).is_empty());
    }
}
