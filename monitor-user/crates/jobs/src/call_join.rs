//! Profiles of different ranks of one job as one, such as those that each node has measured.
//!
//! In: profiles. Out: that of all ranks: calls, times and bytes are added, and the imbalance is
//! that of all ranks. All must have been measured for about the same time.

use crate::call_profile::{CallProfile, CallTotals, CalledRow, imbalance_of};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The profile of all ranks.
pub fn join(parts: &[CallProfile]) -> CallProfile {
    let mut ranks: Vec<_> = parts.iter().flat_map(|part| part.ranks.iter().copied()).collect();
    ranks.sort_by_key(|it| it.rank);
    CallProfile {
        ranks,
        functions: rows(parts, |it| &it.functions),
        places: rows(parts, |it| &it.places),
    }
}

fn rows(parts: &[CallProfile], of: impl Fn(&CallProfile) -> &[CalledRow]) -> Vec<CalledRow> {
    let n_ranks: usize = parts.iter().map(|part| part.ranks.len()).sum();
    let mut joined: BTreeMap<(Arc<str>, Option<Arc<str>>), JoinedRow> = BTreeMap::new();
    for part in parts {
        for row in of(part) {
            let key = (Arc::clone(&row.function), row.place.clone());
            joined.entry(key).or_default().add(row, part.ranks.len());
        }
    }
    let row = |((function, place), it): (_, JoinedRow)| it.row((function, place), n_ranks);
    let mut rows: Vec<CalledRow> = joined.into_iter().map(row).collect();
    rows.sort_by_key(|it| (u64::MAX - it.sums.time_ns, u64::MAX - it.sums.calls));
    rows
}

/// A function or a place on the way.
#[derive(Default)]
struct JoinedRow {
    sums: CallTotals,
    ranks: u32,
    /// Percent of the time of a rank, of all ranks that have it.
    percents: f64,
    /// The longest time of one rank, ns.
    longest_ns: f64,
}

impl JoinedRow {
    fn add(&mut self, row: &CalledRow, n_ranks: usize) {
        self.sums.add(&row.sums);
        self.ranks = self.ranks.saturating_add(row.ranks);
        self.percents += row.percent * n_ranks as f64;
        self.longest_ns = self.longest_ns.max(longest_ns(row, n_ranks));
    }

    fn row(self, (function, place): (Arc<str>, Option<Arc<str>>), n_ranks: usize) -> CalledRow {
        let Self { sums, ranks, percents, longest_ns } = self;
        // Rounding may make the mean larger than the longest.
        let imbalance = imbalance_of(longest_ns, sums.time_ns as f64, n_ranks);
        let imbalance = imbalance.map(|it| it.max(0.0));
        let percent = percents / n_ranks.max(1) as f64;
        CalledRow { function, place, sums, ranks, percent, imbalance }
    }
}

/// The longest time of one of the ranks of a row: what its imbalance was made of.
fn longest_ns(row: &CalledRow, n_ranks: usize) -> f64 {
    let n = n_ranks.max(1) as f64;
    let mean = row.sums.time_ns as f64 / n;
    let share = row.imbalance.unwrap_or(0.0) / 100.0 * (n - 1.0) / n;
    if share < 1.0 { mean / (1.0 - share) } else { row.sums.time_ns as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_profile::{RankCalls, call_profile};

    #[test]
    fn profiles_of_parts_are_joined_to_that_of_all_ranks() {
        let calls = |rank: u32, function: &str, time_ns: u64| {
            let sums = CallTotals { calls: 2, timed: 2, time_ns, max_ns: 9, ..Default::default() };
            RankCalls { rank, function: function.into(), place: "a".into(), sums }
        };
        let all = [
            calls(0, "MPI_Send", 100),
            calls(1, "MPI_Send", 300),
            calls(2, "MPI_Send", 700),
            calls(2, "MPI_Wait", 250),
        ];
        let profile = |ranks: std::ops::Range<u32>| {
            let own: Vec<_> = all.iter().filter(|it| ranks.contains(&it.rank)).cloned().collect();
            call_profile(&own, &ranks.map(|rank| (rank, 1000)).collect())
        };
        let (want, joined) = (profile(0..5), join(&[profile(2..3), profile(0..2), profile(3..5)]));
        assert_eq!(joined.ranks, want.ranks);
        for (joined, want) in joined.functions.iter().zip(&want.functions) {
            assert_eq!((&joined.function, joined.sums), (&want.function, want.sums));
            let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
            assert!(near(joined.percent, want.percent), "{joined:?} {want:?}");
            let imbalance = [joined, want].map(|it| it.imbalance.expect("several ranks"));
            assert!(near(imbalance[0], imbalance[1]), "{joined:?} {want:?}");
        }
        assert_eq!((joined.functions.len(), joined.places.len()), (2, 2));
        assert_eq!(join(&[]), CallProfile::default());
    }
}
