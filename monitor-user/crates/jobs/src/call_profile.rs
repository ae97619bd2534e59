//! The profile of a job: how long each rank is in MPI, in which functions, and called from where.
//!
//! In: sums of calls by rank, function and place, and for how long each rank was measured. Out: a
//! row for each rank, each function and each place, the longest time first. Times are those of
//! threads: several threads of a rank in MPI add up.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Calls of a function by a rank from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankCalls {
    /// The rank.
    pub rank: u32,
    /// The function.
    pub function: Arc<str>,
    /// Where it is called.
    pub place: Arc<str>,
    /// The calls.
    pub sums: CallTotals,
}

/// Sums of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// Calls that began.
    pub calls: u64,
    /// Calls that were timed.
    pub timed: u64,
    /// Sum of their times, and of the times so far of calls that have not ended, ns.
    pub time_ns: u64,
    /// The longest time, ns.
    pub max_ns: u64,
    /// Calls that have not ended.
    pub open: u64,
    /// Calls that were left otherwise than by a return.
    pub left: u64,
    /// Calls that were not timed and whose time is estimated: the mean of those that were.
    pub estimated: u64,
    /// Calls whose bytes are known.
    pub sized: u64,
    /// Bytes that these calls sent or wrote.
    pub bytes: u64,
}

impl CallTotals {
    /// Adds the sums of other calls.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.timed += other.timed;
        self.time_ns += other.time_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.open += other.open;
        self.left += other.left;
        self.estimated += other.estimated;
        self.sized += other.sized;
        // Sizes are those that the process has stored.
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// The same, with the time of the calls to estimate.
    pub fn with_estimate(mut self) -> Self {
        match self.time_ns.checked_div(self.timed) {
            Some(mean_ns) => self.time_ns += mean_ns * self.estimated,
            None => self.estimated = 0,
        }
        self
    }

    /// The mean time, ns; of calls that have not ended the time so far.
    pub fn mean_ns(&self) -> Option<u64> {
        self.time_ns.checked_div(self.timed + self.estimated + self.open)
    }

    /// The mean number of bytes.
    pub fn mean_bytes(&self) -> Option<u64> {
        self.bytes.checked_div(self.sized)
    }
}

/// A rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankShare {
    /// Its number.
    pub rank: u32,
    /// Its calls.
    pub sums: CallTotals,
    /// Time in MPI, percent of the time for which it was measured; more than 100 if several of its
    /// threads are in MPI.
    pub percent: f64,
}

/// A function, or a place of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CalledRow {
    /// The function.
    pub function: Arc<str>,
    /// The place; `None` for all.
    pub place: Option<Arc<str>>,
    /// The calls of all ranks.
    pub sums: CallTotals,
    /// The ranks that call it.
    pub ranks: u32,
    /// Its share of the time of all ranks, percent.
    pub percent: f64,
    /// Imbalance of the time, percent: 0 if all ranks spend the same time in it, 100 if only one
    /// spends any. It is `(max - mean) / max * n / (n - 1)` over all ranks of the profile (DeRose,
    /// Homer and Johnson, Detecting Application Load Imbalance on High End Massively Parallel
    /// Systems, 2007); `None` for one rank, and without time.
    pub imbalance: Option<f64>,
}

/// The profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallProfile {
    /// The ranks, in order.
    pub ranks: Vec<RankShare>,
    /// The functions, the longest time first.
    pub functions: Vec<CalledRow>,
    /// The places, likewise.
    pub places: Vec<CalledRow>,
}

/// The profile of calls; `measured` has for each rank the time for which it was measured, ns.
pub fn call_profile(calls: &[RankCalls], measured: &BTreeMap<u32, u64>) -> CallProfile {
    let share = |(rank, time_ns): (&u32, &u64)| {
        let sums = total(calls.iter().filter(|it| it.rank == *rank));
        RankShare { rank: *rank, sums, percent: percent(sums.time_ns, *time_ns) }
    };
    let by_function = |it: &RankCalls| (Arc::clone(&it.function), None);
    let by_place = |it: &RankCalls| (Arc::clone(&it.function), Some(Arc::clone(&it.place)));
    CallProfile {
        ranks: measured.iter().map(share).collect(),
        functions: rows(calls, measured, &by_function),
        places: rows(calls, measured, &by_place),
    }
}

type RowKey = (Arc<str>, Option<Arc<str>>);

fn rows(
    calls: &[RankCalls],
    measured: &BTreeMap<u32, u64>,
    key: &dyn Fn(&RankCalls) -> RowKey,
) -> Vec<CalledRow> {
    let mut groups: BTreeMap<RowKey, Vec<&RankCalls>> = BTreeMap::new();
    for it in calls {
        groups.entry(key(it)).or_default().push(it);
    }
    let all_ns = measured.values().sum();
    let row = |((function, place), calls): (RowKey, Vec<&RankCalls>)| {
        let sums = total(calls.iter().copied());
        let mut times: BTreeMap<u32, u64> = BTreeMap::new();
        for it in &calls {
            *times.entry(it.rank).or_default() += it.sums.time_ns;
        }
        CalledRow {
            function,
            place,
            sums,
            ranks: u32::try_from(times.len()).unwrap_or(u32::MAX),
            percent: percent(sums.time_ns, all_ns),
            imbalance: imbalance(&times, measured.len()),
        }
    };
    let mut rows: Vec<CalledRow> = groups.into_iter().map(row).collect();
    // Stable: of those with the same time the names decide.
    rows.sort_by_key(|it| (u64::MAX - it.sums.time_ns, u64::MAX - it.sums.calls));
    rows
}

fn total<'c>(calls: impl Iterator<Item = &'c RankCalls>) -> CallTotals {
    let mut sums = CallTotals::default();
    calls.for_each(|it| sums.add(&it.sums));
    sums
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// The imbalance of times of ranks; ranks without one have 0.
fn imbalance(times: &BTreeMap<u32, u64>, ranks: usize) -> Option<f64> {
    let max = *times.values().max()?;
    imbalance_of(max as f64, times.values().sum::<u64>() as f64, ranks)
}

/// The imbalance of ranks by the longest time and the sum of all, as [`CalledRow::imbalance`].
pub fn imbalance_of(max: f64, sum: f64, ranks: usize) -> Option<f64> {
    if ranks < 2 || max <= 0.0 {
        return None;
    }
    let ranks = ranks as f64;
    Some((max - sum / ranks) / max * ranks / (ranks - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(rank: u32, function: &str, place: &str, (n, time_ns): (u64, u64)) -> RankCalls {
        let sums =
            CallTotals { calls: n, timed: n, time_ns, max_ns: time_ns, ..Default::default() };
        RankCalls { rank, function: function.into(), place: place.into(), sums }
    }

    fn measured(ranks: u32) -> BTreeMap<u32, u64> {
        (0..ranks).map(|rank| (rank, 1000)).collect()
    }

    #[test]
    fn calls_are_summed_by_rank_function_and_place() {
        let all = [
            calls(0, "MPI_Send", "a", (2, 100)),
            calls(0, "MPI_Send", "b", (1, 50)),
            calls(1, "MPI_Send", "a", (4, 300)),
            calls(1, "MPI_Wait", "c", (1, 600)),
        ];
        let profile = call_profile(&all, &measured(2));
        let ranks: Vec<_> = profile.ranks.iter().map(|it| (it.rank, it.percent)).collect();
        assert_eq!(ranks, [(0, 15.0), (1, 90.0)]);
        let line = |it: &CalledRow| {
            let place = it.place.as_deref().unwrap_or("-");
            format!("{} {place} {} {} {}", it.function, it.sums.calls, it.sums.time_ns, it.ranks)
        };
        let lines = |rows: &[CalledRow]| rows.iter().map(line).collect::<Vec<_>>();
        assert_eq!(lines(&profile.functions), ["MPI_Wait - 1 600 1", "MPI_Send - 7 450 2"]);
        let places = ["MPI_Wait c 1 600 1", "MPI_Send a 6 400 2", "MPI_Send b 1 50 1"];
        assert_eq!(lines(&profile.places), places);
        assert_eq!(profile.functions[1].percent, 22.5);
    }

    #[track_caller]
    fn check_imbalance(times: &[(u32, u64)], ranks: usize, want: Option<f64>) {
        assert_eq!(imbalance(&times.iter().copied().collect(), ranks), want);
    }

    #[test]
    fn imbalance_is_0_for_equal_times_and_100_where_one_rank_has_all() {
        check_imbalance(&[(0, 7), (1, 7)], 2, Some(0.0));
        check_imbalance(&[(3, 9)], 4, Some(100.0));
        check_imbalance(&[(0, 9)], 1, None);
        check_imbalance(&[(0, 0)], 2, None);
    }

    #[test]
    fn calls_that_are_no_longer_timed_take_as_long_as_the_others() {
        let sums =
            CallTotals { calls: 9, timed: 2, estimated: 7, time_ns: 20, ..Default::default() };
        let with = sums.with_estimate();
        assert_eq!((with.time_ns, with.mean_ns()), (90, Some(10)));
        let never = CallTotals { calls: 9, estimated: 9, ..Default::default() }.with_estimate();
        assert_eq!((never.estimated, never.mean_ns()), (0, None));
    }

    #[test]
    fn a_call_that_has_not_ended_counts_in_the_mean() {
        let sums = CallTotals { calls: 2, timed: 1, open: 1, time_ns: 30, ..Default::default() };
        assert_eq!((sums.mean_ns(), sums.mean_bytes()), (Some(15), None));
    }
}
