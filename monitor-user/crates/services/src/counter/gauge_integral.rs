//! The integral of a gauge over time, with its mean, minimum and maximum.
//!
//! In: values, or changes, with their times. Out: the integral and the mean up to a time. Times
//! that go backward add nothing.

use monitor_backend::{rule::aggregates::GaugeIntegral as Kernel, rule::insn::GaugeChange};
use monitor_model::Ns;

/// A gauge and its integral over time.
#[derive(Clone, Debug)]
pub struct GaugeIntegral {
    /// Number of changes.
    pub count: u64,
    /// The value now.
    pub value: i64,
    /// The minimum since the start.
    pub min: i64,
    /// The maximum since the start.
    pub max: i64,
    start: Ns,
    since: Ns,
    /// The integral up to `since`.
    sum: f64,
}

impl GaugeIntegral {
    /// A gauge with this value, from a time on.
    pub const fn new(value: i64, start: Ns) -> Self {
        Self { count: 0, value, min: value, max: value, start, since: start, sum: 0.0 }
    }

    /// Restarts the integral now. If the kernel changes the gauge too, `level` is their common
    /// value.
    pub fn restarted(&self, level: Option<i64>, now: Ns) -> Self {
        let level = level.unwrap_or(self.value);
        Self { min: level, max: level, ..Self::new(self.value, now) }
    }

    /// Changes the gauge at a time. If the kernel changes it too, `before` is their common value.
    pub fn apply(&mut self, how: GaugeChange, before: Option<i64>, now: Ns) {
        let before = before.unwrap_or(self.value);
        let after = how.apply(before);
        self.sum = self.integral(now);
        self.since = Ns(self.since.0.max(now.0));
        self.count += 1;
        self.value = self.value.wrapping_add(after.wrapping_sub(before));
        self.extend(after);
    }

    /// Extends minimum and maximum to this value.
    pub fn extend(&mut self, level: i64) {
        self.min = self.min.min(level);
        self.max = self.max.max(level);
    }

    /// The sum of this share and the kernel's share, up to now.
    pub fn with_kernel(&self, kernel: &Kernel, now: Ns) -> Self {
        let sum = self.integral(now) + kernel.integral_at(now) as f64 / 1e9;
        let since = Ns(self.since.0.max(now.0));
        let count = self.count + kernel.count;
        Self { sum, since, count, value: kernel.value, ..*self }
    }

    /// The integral up to now, in units of the value times seconds.
    pub fn integral(&self, now: Ns) -> f64 {
        self.sum + self.value as f64 * now.since(self.since).seconds()
    }

    /// The mean value up to now; `None` if no time has passed.
    pub fn mean(&self, now: Ns) -> Option<f64> {
        let time = now.since(self.start).seconds();
        (time > 0.0).then(|| self.integral(now) / time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_integral_of_a_gauge_grows_with_time() {
        let second = |n: u64| Ns(n * 1_000_000_000);
        let mut it = GaugeIntegral::new(0, second(10));
        it.apply(GaugeChange::To(4), None, second(11));
        it.apply(GaugeChange::By(-1), None, second(13));
        // 1 s at 0, 2 s at 4, 2 s at 3.
        assert_eq!((it.integral(second(15)), it.mean(second(15))), (14.0, Some(2.8)));
        assert_eq!((it.count, it.value, it.min, it.max), (2, 3, 0, 4));
        // The common value is 9, of which 6 is the kernel's share.
        it.apply(GaugeChange::To(2), Some(9), second(15));
        assert_eq!((it.value, it.max, it.integral(second(16))), (-4, 4, 10.0));
        assert_eq!(GaugeIntegral::new(7, second(1)).mean(second(1)), None);
    }
}
