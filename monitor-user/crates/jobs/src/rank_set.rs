//! Sets of ranks, written as `0-3,7`.
//!
//! In: numbers of ranks, or the text of a user. Out: the set, which prints in the same form. A set
//! is kept as its ranges, so that `0-4294967295` takes the memory of `0`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A set of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RankSet {
    /// In ascending order, with a gap between any two.
    ranges: Vec<RangeInclusive<u32>>,
}

/// A text that is no set of ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} is no rank and no range of ranks: write ranks as 0-3,7")]
pub struct RankSetError {
    /// The part that is wrong.
    part: String,
}

impl RankSet {
    /// The ranks of all sets.
    pub fn union<'s>(sets: impl IntoIterator<Item = &'s Self>) -> Self {
        Self::from_ranges(sets.into_iter().flat_map(|set| set.ranges.iter().cloned()).collect())
    }

    /// Whether it has no rank.
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of its ranks.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|it| u64::from(it.end() - it.start()) + 1).sum()
    }

    /// Whether a rank is in it.
    pub fn contains(&self, rank: u32) -> bool {
        let next = self.ranges.partition_point(|it| *it.end() < rank);
        self.ranges.get(next).is_some_and(|it| it.contains(&rank))
    }

    /// Its ranks, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().cloned().flatten()
    }

    /// The first of its ranks that is not among `others`, without visiting those that are.
    pub fn first_not_in(&self, others: &Self) -> Option<u32> {
        self.ranges.iter().find_map(|range| {
            let next = others.ranges.partition_point(|it| it.end() < range.start());
            match others.ranges.get(next) {
                // Another range begins one rank after a gap at the earliest.
                Some(other) if other.contains(range.start()) => {
                    (other.end() < range.end()).then(|| other.end() + 1)
                }
                _ => Some(*range.start()),
            }
        })
    }

    fn from_ranges(mut ranges: Vec<RangeInclusive<u32>>) -> Self {
        ranges.sort_unstable_by_key(|it| *it.start());
        let mut merged: Vec<RangeInclusive<u32>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => merged.push(range),
            }
        }
        Self { ranges: merged }
    }
}

impl FromIterator<u32> for RankSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ranks: I) -> Self {
        Self::from_ranges(ranks.into_iter().map(|rank| rank..=rank).collect())
    }
}

impl FromStr for RankSet {
    type Err = RankSetError;

    fn from_str(text: &str) -> Result<Self, RankSetError> {
        text.split(',').map(range).collect::<Result<_, _>>().map(Self::from_ranges)
    }
}

fn range(part: &str) -> Result<RangeInclusive<u32>, RankSetError> {
    let wrong = || RankSetError { part: part.to_owned() };
    // `+7` is a number to Rust.
    let number = |text: &str| {
        let number = text.starts_with(|it: char| it.is_ascii_digit()).then(|| text.parse().ok());
        number.flatten().ok_or_else(wrong)
    };
    match part.split_once('-') {
        None => number(part).map(|rank| rank..=rank),
        Some((first, last)) => {
            let range = number(first)?..=number(last)?;
            if range.is_empty() { Err(wrong()) } else { Ok(range) }
        }
    }
}

impl fmt::Display for RankSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, want: Result<&str, &str>) {
        let got = written.parse::<RankSet>();
        let got = got.map(|it| it.to_string()).map_err(|why| why.part);
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn ranges_are_ordered_and_joined() {
        check("7,0-3", Ok("0-3,7"));
        check("0,1,2", Ok("0-2"));
        check("0-5,2-3,6", Ok("0-6"));
        check("4294967295,0", Ok("0,4294967295"));
        check("0-4294967295,3", Ok("0-4294967295"));
    }

    #[test]
    fn what_is_no_rank_is_named() {
        for wrong in ["", "x", "-1", "+1", "1-", "3-1", "1-2-3", " 1", "4294967296"] {
            check(wrong, Err(wrong));
        }
        check("1,,2", Err(""));
    }

    #[test]
    fn a_set_knows_its_ranks() {
        let set: RankSet = [7, 0, 2, 1, 1].into_iter().collect();
        assert_eq!(set.to_string(), "0-2,7");
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 7]);
        assert_eq!((set.len(), set.is_empty()), (4, false));
        assert!([0, 2, 7].iter().all(|it| set.contains(*it)));
        assert!([3, 6, 8].iter().all(|it| !set.contains(*it)));
        let all: RankSet = "0-4294967295".parse().unwrap_or_default();
        assert_eq!(all.len(), 1 << 32);
    }

    #[track_caller]
    fn check_rest(one: &str, others: &str, want: Option<u32>) {
        let [one, others] = [one, others].map(|it| it.parse::<RankSet>().unwrap_or_default());
        assert_eq!(one.first_not_in(&others), want);
    }

    #[test]
    fn the_first_rank_that_another_set_lacks_is_found() {
        check_rest("0-3", "0-7", None);
        check_rest("0-4294967295", "0-3", Some(4));
        check_rest("0-4294967295", "0-4294967295", None);
        check_rest("2,9", "0-3", Some(9));
        check_rest("0-2", "1-9", Some(0));
        check_rest("5-6", "1-3", Some(5));
    }
}
