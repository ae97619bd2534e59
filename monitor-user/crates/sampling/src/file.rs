//! A file that should change, and whether it does.
//!
//! The rule of PMIx (`PMIX_MONITOR_FILE`): the first look is what it is compared with; later, a
//! look that finds nothing changed of what was asked for is a miss; after so many misses in a
//! row somebody is told. A file that is not there yet is waited for; one that goes away, or cannot
//! be looked at any more, is a miss, and its return a change. Opens nothing.

use monitor_model::id::Ns;

/// What stat(2) says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Bytes.
    pub size: u64,
    /// Time of the last access, since 1970.
    pub accessed: Ns,
    /// Time of the last modification.
    pub modified: Ns,
}

/// Why a file could not be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// It is not there.
    Missing,
    /// Who asked may not look.
    Denied,
}

/// What counts as a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes {
    /// Another size, larger or smaller.
    pub size: bool,
    /// An access.
    pub access: bool,
    /// A modification.
    pub modify: bool,
}

impl Changes {
    /// Whether anything counts.
    pub const fn any(self) -> bool {
        self.size || self.access || self.modify
    }

    fn between(self, before: Stat, now: Stat) -> bool {
        (self.size && before.size != now.size)
            || (self.access && before.accessed != now.accessed)
            || (self.modify && before.modified != now.modified)
    }
}

/// One file.
#[derive(Clone, Debug)]
pub struct Watched {
    changes: Changes,
    /// Misses in a row after which somebody is told.
    drops: u64,
    repeat: bool,
    last: Option<Stat>,
    /// Whether it was not to be seen when it was last looked for.
    missing: bool,
    unchanged: u64,
    told: bool,
}

impl Watched {
    /// A file of which these changes count.
    pub fn new(changes: Changes, drops: u32, repeat: bool) -> Self {
        let drops = u64::from(drops).max(1);
        Self { changes, drops, repeat, last: None, missing: false, unchanged: 0, told: false }
    }

    /// A look: how many in a row found nothing changed, or nothing, if somebody is to be told.
    pub fn look(&mut self, stat: Option<Stat>) -> Option<u64> {
        let before = self.last;
        self.last = stat.or(before);
        let before = before?;
        let was_missing = std::mem::replace(&mut self.missing, stat.is_none());
        let changed = stat.is_some_and(|now| was_missing || self.changes.between(before, now));
        // That it is gone is news to who was told that it stays as it is.
        if changed || (self.missing && !was_missing) {
            self.unchanged = 0;
            self.told = false;
        }
        if changed {
            return None;
        }
        self.unchanged += 1;
        let tell = self.unchanged >= self.drops && (self.repeat || !self.told);
        self.told |= tell;
        tell.then_some(self.unchanged)
    }

    /// What the last look saw; nothing, if it is missing.
    pub fn seen(&self) -> Option<Stat> {
        self.last.filter(|_| !self.missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Changes = Changes { size: true, access: false, modify: false };
    const TIMES: Changes = Changes { size: false, access: true, modify: true };

    fn stat(size: u64, accessed: u64, modified: u64) -> Option<Stat> {
        Some(Stat { size, accessed: Ns(accessed), modified: Ns(modified) })
    }

    fn looks(watched: &mut Watched, stats: &[Option<Stat>]) -> Vec<Option<u64>> {
        stats.iter().map(|stat| watched.look(*stat)).collect()
    }

    #[test]
    fn so_many_looks_without_a_change_are_told_once() {
        let mut file = Watched::new(SIZE, 2, false);
        let same = [stat(5, 0, 0); 5];
        assert_eq!(looks(&mut file, &same), [None, None, Some(2), None, None]);
    }

    #[test]
    fn a_change_makes_all_well_a_smaller_size_too() {
        let mut file = Watched::new(SIZE, 0, false);
        let stats = [stat(5, 0, 0), stat(5, 1, 1), stat(3, 1, 1), stat(3, 2, 2)];
        assert_eq!(looks(&mut file, &stats), [None, Some(1), None, Some(1)]);
    }

    #[test]
    fn only_what_was_asked_for_counts() {
        let mut file = Watched::new(TIMES, 1, true);
        let stats = [stat(1, 1, 1), stat(2, 1, 1), stat(2, 2, 1), stat(2, 2, 2)];
        assert_eq!(looks(&mut file, &stats), [None, Some(1), None, None]);
    }

    #[test]
    fn a_file_that_is_not_there_is_waited_for() {
        let mut file = Watched::new(SIZE, 1, false);
        let stats = [None, None, stat(1, 0, 0), stat(1, 0, 0)];
        assert_eq!(looks(&mut file, &stats), [None, None, None, Some(1)]);
    }

    #[test]
    fn one_that_is_gone_is_told_of_after_as_many_looks_and_all_is_well_when_it_is_back() {
        let mut file = Watched::new(SIZE, 2, false);
        let (there, gone) = (stat(1, 0, 0), None);
        let stats = [there, there, there, gone, gone, gone, there, there, there];
        let told = looks(&mut file, &stats[..5]);
        assert_eq!((told[2], told[4], file.seen()), (Some(2), Some(2), None));
        assert_eq!(looks(&mut file, &stats[5..]), [None, None, None, Some(2)]);
        assert_eq!(file.seen(), there);
    }
}
