//! When which monitor must be looked after.
//!
//! In: a time for a key, or none. Out: the first of them, and all until a time. Each costs the
//! logarithm of their number: with a thousand monitors the engine is woken hundreds of times a
//! second, and may not walk over all of them each time.

use super::Key;
use monitor_model::id::Ns;
use std::collections::{BTreeSet, HashMap};

/// Times, one for each key at most.
#[derive(Default)]
pub struct Agenda {
    times: HashMap<Key, Ns>,
    order: BTreeSet<(Ns, Key)>,
}

impl Agenda {
    /// Sets the time of a key, or takes it away.
    pub fn set(&mut self, key: Key, at: Option<Ns>) {
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

    /// The keys whose time is not after this, in the order of keys.
    pub fn until(&self, to: Ns) -> Vec<Key> {
        let mut keys: Vec<Key> =
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
        let mut agenda = Agenda::default();
        for at in [5, 3, 3, 9] {
            agenda.set(1, Some(Ns(at)));
            assert_eq!(agenda.first(), Some(Ns(at)));
        }
        agenda.set(1, None);
        assert_eq!(agenda.first(), None);
    }

    #[test]
    fn all_until_a_time_come_in_the_order_of_keys() {
        let mut agenda = Agenda::default();
        for (key, at) in [(7, 10), (3, 20), (5, 10), (1, 30)] {
            agenda.set(key, Some(Ns(at)));
        }
        assert_eq!(agenda.until(Ns(20)), [3, 5, 7]);
        assert!(agenda.until(Ns(9)).is_empty());
    }
}
