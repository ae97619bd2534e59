//! Numbers that are given out and come back: of lists, cells, histograms, timers, sets and events.

use super::code::unsupported;
use monitor_backend::Error;
use std::collections::BTreeSet;

/// The numbers of one kind of thing.
pub struct Places {
    what: &'static str,
    limit: u32,
    used: BTreeSet<u32>,
}

impl Places {
    /// None used, of so many.
    pub const fn new(what: &'static str, limit: u32) -> Self {
        Self { what, limit, used: BTreeSet::new() }
    }

    /// The lowest free number.
    pub fn take(&mut self) -> Result<u32, Error> {
        self.take_row(1)
    }

    /// The lowest free number that has this many free ones from it on.
    pub fn take_row(&mut self, n: u32) -> Result<u32, Error> {
        let is_free = |first: &u32| (*first..first + n).all(|number| !self.used.contains(&number));
        let Some(first) = (0..(self.limit + 1).saturating_sub(n)).find(is_free) else {
            let why = format!("all {} {} are used", self.limit, self.what);
            return Err(unsupported(why, "free one that is not needed any more"));
        };
        self.used.extend(first..first + n);
        Ok(first)
    }

    /// Gives so many numbers back, from one on.
    pub fn give_back_row(&mut self, first: u32, n: u32) {
        (first..first + n).for_each(|number| self.give_back(number));
    }

    /// Gives a number back.
    pub fn give_back(&mut self, number: u32) {
        let _ = self.used.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_and_the_limit_is_said() {
        let mut places = Places::new("sets", 3);
        assert_eq!((places.take().unwrap(), places.take_row(2).unwrap()), (0, 1));
        let error = places.take().unwrap_err().to_string();
        assert!(error.contains("all 3 sets"), "{error}");
        places.give_back(1);
        assert!(places.take_row(2).is_err(), "1 alone is free");
        assert_eq!(places.take().unwrap(), 1);
    }
}
