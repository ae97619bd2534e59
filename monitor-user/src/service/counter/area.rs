//! A level that changes: the area below it, its mean, its extremes.
//!
//! In: levels, or changes, with their times. Out: what they come to until a time. Times that go
//! backward add nothing.

use crate::model::id::Ns;

/// A level over time.
#[derive(Debug)]
pub struct Area {
    /// How often it changed.
    pub count: u64,
    /// What it is now.
    pub level: i64,
    /// The lowest since the beginning.
    pub least: i64,
    /// The highest.
    pub most: i64,
    began: Ns,
    since: Ns,
    /// Up to `since`.
    sum: f64,
}

impl Area {
    /// A level from a time on.
    pub const fn new(level: i64, began: Ns) -> Self {
        Self { count: 0, level, least: level, most: level, began, since: began, sum: 0.0 }
    }

    /// It is this from now on.
    pub fn set(&mut self, level: i64, now: Ns) {
        self.sum = self.seconds(now);
        self.since = Ns(self.since.0.max(now.0));
        self.count += 1;
        self.level = level;
        self.least = self.least.min(level);
        self.most = self.most.max(level);
    }

    /// It is so much more from now on.
    pub fn change(&mut self, by: i64, now: Ns) {
        self.set(self.level.saturating_add(by), now);
    }

    /// The area until now, in units of the level times seconds.
    pub fn seconds(&self, now: Ns) -> f64 {
        self.sum + self.level as f64 * now.since(self.since).seconds()
    }

    /// The mean level until now; none at the moment of its beginning.
    pub fn mean(&self, now: Ns) -> Option<f64> {
        let time = now.since(self.began).seconds();
        (time > 0.0).then(|| self.seconds(now) / time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_below_a_level_grows_with_time() {
        let second = |n: u64| Ns(n * 1_000_000_000);
        let mut it = Area::new(0, second(10));
        it.set(4, second(11));
        it.change(-1, second(13));
        // 1 s at 0, 2 s at 4, 2 s at 3.
        assert_eq!((it.seconds(second(15)), it.mean(second(15))), (14.0, Some(2.8)));
        assert_eq!((it.count, it.level, it.least, it.most), (2, 3, 0, 4));
        assert_eq!(Area::new(7, second(1)).mean(second(1)), None);
    }
}
