//! A level that changes: the area below it, its mean, its extremes.
//!
//! In: levels, or changes, with their times. Out: what they come to until a time. Times that go
//! backward add nothing.

use monitor_backend::rule::act::Move;
use monitor_backend::rule::held::Area as Kernel;
use monitor_model::id::Ns;

/// A level over time.
#[derive(Clone, Debug)]
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

    /// The same level, from now on; if others change it too, they say what it is in all.
    pub fn anew(&self, level: Option<i64>, now: Ns) -> Self {
        let level = level.unwrap_or(self.level);
        Self { least: level, most: level, ..Self::new(self.level, now) }
    }

    /// From now on it is this. Before it was as here, or, if others change it too, as they say.
    pub fn change(&mut self, how: Move, before: Option<i64>, now: Ns) {
        let before = before.unwrap_or(self.level);
        let after = how.of(before);
        self.sum = self.seconds(now);
        self.since = Ns(self.since.0.max(now.0));
        self.count += 1;
        self.level = self.level.wrapping_add(after.wrapping_sub(before));
        self.reach(after);
    }

    /// The level was this some time.
    pub fn reach(&mut self, level: i64) {
        self.least = self.least.min(level);
        self.most = self.most.max(level);
    }

    /// Together with what was done to it in the kernel until now.
    pub fn with(&self, kernel: &Kernel, now: Ns) -> Self {
        let sum = self.seconds(now) + kernel.until(now) as f64 / 1e9;
        let since = Ns(self.since.0.max(now.0));
        let count = self.count + kernel.count;
        Self { sum, since, count, level: kernel.level, ..*self }
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
        it.change(Move::To(4), None, second(11));
        it.change(Move::By(-1), None, second(13));
        // 1 s at 0, 2 s at 4, 2 s at 3.
        assert_eq!((it.seconds(second(15)), it.mean(second(15))), (14.0, Some(2.8)));
        assert_eq!((it.count, it.level, it.least, it.most), (2, 3, 0, 4));
        // Others have made 9 of it, of which 6 are theirs.
        it.change(Move::To(2), Some(9), second(15));
        assert_eq!((it.level, it.most, it.seconds(second(16))), (-4, 4, 10.0));
        assert_eq!(Area::new(7, second(1)).mean(second(1)), None);
    }
}
