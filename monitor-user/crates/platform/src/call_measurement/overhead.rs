//! What probes cost the ranks, and which functions are given up when that is too much.
//!
//! In: the prices of probes, and counts of calls at two moments. Out: the largest share of
//! the time of a rank, and the function that costs most.

use monitor_backend::call_profile::{CallProbePrices, CallSite, CallSums, StartKind};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Shortest time over which a share is computed.
const WINDOW: Duration = Duration::from_millis(250);

/// The calls of a rank in a function.
type CallKey = (u32, u32);

/// Counts of calls so far, and their ends.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    calls: u64,
    ended: u64,
}

/// Judges the overhead.
pub struct CallOverhead {
    prices: CallProbePrices,
    since: Instant,
    before: BTreeMap<CallKey, Counts>,
    /// The largest share of a rank in any window, percent.
    pub largest: f64,
}

impl CallOverhead {
    /// With the prices of this machine.
    pub fn new(prices: CallProbePrices) -> Self {
        Self { prices, since: Instant::now(), before: BTreeMap::new(), largest: 0.0 }
    }

    /// Whether a window is over.
    pub fn is_due(&self) -> bool {
        self.since.elapsed() >= WINDOW
    }

    /// The function that costs most, and the largest share of the time of a rank, percent, once in
    /// a window; `kind` is that of the start of a function.
    pub fn judge(
        &mut self,
        sums: &[(CallSite, CallSums)],
        kind: impl Fn(u32) -> StartKind,
    ) -> Option<(u32, f64)> {
        if !self.is_due() {
            return None;
        }
        let elapsed = self.since.elapsed();
        let mut now: BTreeMap<CallKey, Counts> = BTreeMap::new();
        for (site, sums) in sums {
            let counts = now.entry((site.process, site.function)).or_default();
            counts.calls += sums.calls;
            counts.ended += sums.ended;
        }
        let (mut of_rank, mut of_function) = (BTreeMap::new(), BTreeMap::new());
        for (key, counts) in &now {
            let before = self.before.get(key).copied().unwrap_or_default();
            let ns = (counts.calls - before.calls) * self.prices.start(kind(key.1))
                + (counts.ended - before.ended) * self.prices.end_ns;
            *of_rank.entry(key.0).or_insert(0) += ns;
            *of_function.entry(key.1).or_insert(0) += ns;
        }
        (self.before, self.since) = (now, Instant::now());
        let most = of_rank.into_values().max().unwrap_or(0);
        let share = most as f64 / elapsed.as_nanos() as f64 * 100.0;
        self.largest = self.largest.max(share);
        let hottest = of_function.into_iter().max_by_key(|(_, ns): &(u32, u64)| *ns);
        hottest.map(|(function, _)| (function, share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(process: u32, function: u32, calls: u64) -> (CallSite, CallSums) {
        let site = CallSite { process, function, ..CallSite::default() };
        (site, CallSums { calls, ended: calls, ..CallSums::default() })
    }

    #[test]
    fn the_hottest_function_and_the_largest_share_are_found() {
        let prices =
            CallProbePrices { start_ns: [1000; 3], end_ns: 9000, ..CallProbePrices::default() };
        let mut overhead = CallOverhead::new(prices);
        assert_eq!(overhead.judge(&[sums(0, 0, 1)], |_| StartKind::Emulated), None, "too early");
        overhead.since -= Duration::from_secs(1);
        // 10 us each: rank 0 has 1,000 calls, rank 1 has 3,000.
        let all = [sums(0, 0, 1000), sums(1, 0, 500), sums(1, 1, 2500)];
        let (function, share) = overhead.judge(&all, |_| StartKind::Emulated).expect("a window");
        assert_eq!(function, 1);
        assert!((2.9..3.1).contains(&share), "{share}");
    }
}
