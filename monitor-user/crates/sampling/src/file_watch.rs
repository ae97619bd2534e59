//! A file watch: alerts when a file does not change.
//!
//! In: metadata at each check. Out: an alert. The rule of PMIx (`PMIX_MONITOR_FILE`): the first
//! check is the reference; a later check without a requested change is a miss; a number of misses
//! in a row alerts. A file that does not exist yet is waited for; one that disappears or becomes
//! unreadable is a miss, and its return a change. Opens nothing.

use monitor_model::Ns;

/// The metadata of a file, from stat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last access, since 1970.
    pub accessed: Ns,
    /// Time of the last modification, since 1970.
    pub modified: Ns,
}

/// Why the metadata could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatFailure {
    /// The file does not exist.
    Missing,
    /// The user has no permission.
    Denied,
}

/// The changes that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileChanges {
    /// A larger or smaller size.
    pub size: bool,
    /// An access.
    pub access: bool,
    /// A modification.
    pub modify: bool,
}

impl FileChanges {
    /// Whether any change counts.
    pub const fn any(self) -> bool {
        self.size || self.access || self.modify
    }

    fn between(self, before: FileStat, now: FileStat) -> bool {
        (self.size && before.size != now.size)
            || (self.access && before.accessed != now.accessed)
            || (self.modify && before.modified != now.modified)
    }
}

/// The watch of one file.
#[derive(Clone, Debug)]
pub struct FileChangeWatch {
    changes: FileChanges,
    /// Number of misses in a row that alerts.
    drops: u64,
    repeat: bool,
    last: Option<FileStat>,
    /// Whether the file was missing at the last check.
    missing: bool,
    unchanged: u64,
    is_alerted: bool,
}

impl FileChangeWatch {
    /// A watch for these changes.
    pub fn new(changes: FileChanges, drops: u32, repeat: bool) -> Self {
        let drops = u64::from(drops).max(1);
        Self { changes, drops, repeat, last: None, missing: false, unchanged: 0, is_alerted: false }
    }

    /// Adds a check; returns the number of misses in a row if an alert is due.
    pub fn check(&mut self, stat: Option<FileStat>) -> Option<u64> {
        let before = self.last;
        self.last = stat.or(before);
        let before = before?;
        let was_missing = std::mem::replace(&mut self.missing, stat.is_none());
        let changed = stat.is_some_and(|now| was_missing || self.changes.between(before, now));
        // The disappearance of the file starts a new row of misses.
        if changed || (self.missing && !was_missing) {
            self.unchanged = 0;
            self.is_alerted = false;
        }
        if changed {
            return None;
        }
        self.unchanged += 1;
        let alerts = self.unchanged >= self.drops && (self.repeat || !self.is_alerted);
        self.is_alerted |= alerts;
        alerts.then_some(self.unchanged)
    }

    /// The metadata at the last check; `None` if the file is missing.
    pub fn seen(&self) -> Option<FileStat> {
        self.last.filter(|_| !self.missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: FileChanges = FileChanges { size: true, access: false, modify: false };
    const TIMES: FileChanges = FileChanges { size: false, access: true, modify: true };

    fn stat(size: u64, accessed: u64, modified: u64) -> Option<FileStat> {
        Some(FileStat { size, accessed: Ns(accessed), modified: Ns(modified) })
    }

    fn check_all(watch: &mut FileChangeWatch, stats: &[Option<FileStat>]) -> Vec<Option<u64>> {
        stats.iter().map(|stat| watch.check(*stat)).collect()
    }

    #[test]
    fn checks_without_a_change_alert_once() {
        let mut file = FileChangeWatch::new(SIZE, 2, false);
        let same = [stat(5, 0, 0); 5];
        assert_eq!(check_all(&mut file, &same), [None, None, Some(2), None, None]);
    }

    #[test]
    fn a_change_resets_the_watch_also_a_smaller_size() {
        let mut file = FileChangeWatch::new(SIZE, 0, false);
        let stats = [stat(5, 0, 0), stat(5, 1, 1), stat(3, 1, 1), stat(3, 2, 2)];
        assert_eq!(check_all(&mut file, &stats), [None, Some(1), None, Some(1)]);
    }

    #[test]
    fn only_requested_changes_count() {
        let mut file = FileChangeWatch::new(TIMES, 1, true);
        let stats = [stat(1, 1, 1), stat(2, 1, 1), stat(2, 2, 1), stat(2, 2, 2)];
        assert_eq!(check_all(&mut file, &stats), [None, Some(1), None, None]);
    }

    #[test]
    fn a_missing_file_is_waited_for() {
        let mut file = FileChangeWatch::new(SIZE, 1, false);
        let stats = [None, None, stat(1, 0, 0), stat(1, 0, 0)];
        assert_eq!(check_all(&mut file, &stats), [None, None, None, Some(1)]);
    }

    #[test]
    fn a_deleted_file_alerts_after_as_many_checks_and_its_return_resets() {
        let mut file = FileChangeWatch::new(SIZE, 2, false);
        let (there, gone) = (stat(1, 0, 0), None);
        let stats = [there, there, there, gone, gone, gone, there, there, there];
        let misses = check_all(&mut file, &stats[..5]);
        assert_eq!((misses[2], misses[4], file.seen()), (Some(2), Some(2), None));
        assert_eq!(check_all(&mut file, &stats[5..]), [None, None, None, Some(2)]);
        assert_eq!(file.seen(), there);
    }
}
