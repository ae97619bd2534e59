//! Allocator of small ids: for programs, cells, histograms, timers, sets and events.

use super::encode::unsupported;
use monitor_backend::Error;
use std::collections::BTreeSet;

/// Ids of one kind of resource.
pub struct IdPool {
    what: &'static str,
    limit: u32,
    used: BTreeSet<u32>,
}

impl IdPool {
    /// A pool of `limit` free ids.
    pub const fn new(what: &'static str, limit: u32) -> Self {
        Self { what, limit, used: BTreeSet::new() }
    }

    /// Allocates the lowest free id.
    pub fn take(&mut self) -> Result<u32, Error> {
        self.take_range(1)
    }

    /// Allocates `n` consecutive ids and returns the lowest.
    pub fn take_range(&mut self, n: u32) -> Result<u32, Error> {
        let is_free = |first: &u32| (*first..first + n).all(|number| !self.used.contains(&number));
        let Some(first) = (0..(self.limit + 1).saturating_sub(n)).find(is_free) else {
            let why = format!("all {} {} are used", self.limit, self.what);
            return Err(unsupported(why, "remove one that is no longer needed"));
        };
        self.used.extend(first..first + n);
        Ok(first)
    }

    /// Frees `n` consecutive ids.
    pub fn give_back_range(&mut self, first: u32, n: u32) {
        (first..first + n).for_each(|number| self.give_back(number));
    }

    /// Frees an id.
    pub fn give_back(&mut self, number: u32) {
        let _ = self.used.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_ids_are_reused_and_the_limit_is_reported() {
        let mut pool = IdPool::new("sets", 3);
        assert_eq!((pool.take().unwrap(), pool.take_range(2).unwrap()), (0, 1));
        let error = pool.take().unwrap_err().to_string();
        assert!(error.contains("all 3 sets"), "{error}");
        pool.give_back(1);
        assert!(pool.take_range(2).is_err(), "1 alone is free");
        assert_eq!(pool.take().unwrap(), 1);
    }
}
