//! Faults and limits of the node: what has changed between readings, and what changed before.
//!
//! In: values of readings, and processes that were killed because memory is used up. Out: changes.
//! The first value of anything is no change. Of a source at most [`MAX_OF_READING`] changes come
//! of one reading: the others come of the next one, so that one source, or one part of it, keeps
//! no other one back. The log has at most [`MAX_CHANGES`]: beyond that, the source and the user
//! with the most of them lose the oldest one.

use monitor_model::environment::{ChangeRule, EnvironmentKey, EnvironmentSource, EnvironmentValue};
use monitor_model::{Credentials, Ns, Pid};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Most changes that are kept.
pub const MAX_CHANGES: usize = 1024;
/// Most banks and kinds of machine checks that are counted.
const MAX_COUNTED: usize = 4096;
/// Most changes of one source by one reading.
pub const MAX_OF_READING: usize = 16;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentChange {
    /// When it was found, since boot; when it occurred, of a process that was killed.
    pub at: Ns,
    /// What has changed.
    pub key: EnvironmentKey,
    /// The value before, and the value now; absent if unknown.
    pub values: Option<(i64, i64)>,
    /// The process that was killed.
    pub process: Option<KilledProcess>,
}

/// A process that was killed because memory is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KilledProcess {
    /// Its pid.
    pub pid: Pid,
    /// Its user id.
    pub uid: Option<u32>,
    /// The user, besides root, that could read it.
    pub reader: Option<Credentials>,
    /// The id of its job, and its rank.
    pub job: Option<(Arc<str>, u32)>,
}

/// A machine check that a processor has recorded in one of its banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineCheck {
    /// The processor.
    pub cpu: u64,
    /// The bank.
    pub bank: u64,
    /// `IA32_MCi_STATUS` (Intel SDM volume 3, chapter on the machine-check architecture).
    pub status: u64,
}

impl MachineCheck {
    /// What it says of the error: not corrected, deferred (AMD), or corrected.
    const fn kind(self) -> &'static str {
        const UNCORRECTED: u64 = 1 << 61;
        const DEFERRED: u64 = 1 << 44;
        match self.status {
            it if it & UNCORRECTED != 0 => "uncorrected",
            it if it & DEFERRED != 0 => "deferred",
            _ => "corrected",
        }
    }
}

/// The values of the last reading, and the changes so far.
#[derive(Debug, Default)]
pub struct EnvironmentLog {
    known: BTreeMap<EnvironmentKey, KnownValue>,
    /// Machine checks that the kernel has reported one by one.
    checks: BTreeMap<EnvironmentKey, i64>,
    /// The last change that each source had.
    last: BTreeMap<EnvironmentSource, EnvironmentKey>,
    changes: VecDeque<EnvironmentChange>,
}

/// A value that was read.
#[derive(Debug)]
struct KnownValue {
    /// What was reported last.
    reported: i64,
    /// What the reading before has shown.
    before: i64,
    /// Whether it was at its limit or above.
    is_over: bool,
}

impl EnvironmentLog {
    /// A processor has recorded a machine check, which the next reading reports with the others of
    /// this bank and kind.
    pub fn count_machine_check(&mut self, check: MachineCheck) {
        let source = EnvironmentSource::MachineCheck;
        let what = format!("cpu{} bank {}", check.cpu, check.bank).into();
        let key = EnvironmentKey { source, what, kind: check.kind().into() };
        if self.checks.len() < MAX_COUNTED || self.checks.contains_key(&key) {
            *self.checks.entry(key).or_default() += 1;
        }
    }

    /// The counts of machine checks, which began at zero.
    fn checks(&mut self) -> Vec<EnvironmentValue> {
        for key in self.checks.keys() {
            let zero = || KnownValue { reported: 0, before: 0, is_over: false };
            let _known = self.known.entry(key.clone()).or_insert_with(zero);
        }
        let counts = self.checks.iter().map(|(key, count)| (key.clone(), *count));
        counts
            .map(|(key, value)| EnvironmentValue { key, value, rule: ChangeRule::Counter })
            .collect()
    }

    /// Compares a reading with the one before; returns what changed. Where kills are reported one
    /// by one, those of the count that are not reported by the next reading have no process.
    pub fn compare(
        &mut self,
        now: Ns,
        values: Vec<EnvironmentValue>,
        reports_kills: bool,
    ) -> Vec<EnvironmentChange> {
        let checks = self.checks();
        let mut known = std::mem::take(&mut self.known);
        let mut changed: BTreeMap<EnvironmentKey, (i64, i64)> = BTreeMap::new();
        for it in values.into_iter().chain(checks) {
            let (key, value) = (it.key.clone(), it.value);
            let Some(mut before) = known.remove(&key) else {
                let _new = self.known.insert(key, KnownValue::first(&it));
                continue;
            };
            let awaits_report = reports_kills && key.source == EnvironmentSource::Oom;
            let reached = if awaits_report { before.before.min(value) } else { value };
            // A kill can be reported before it is counted, which is no reset of the counter.
            let is_ahead = awaits_report && value >= before.before && reached <= before.reported;
            before.before = value;
            if !is_ahead && before.has_changed(reached, it.rule) {
                let _none = changed.insert(key.clone(), (before.reported, reached));
            }
            let _none = self.known.insert(key, before);
        }
        let sources = EnvironmentSource::ALL.iter();
        let due: Vec<_> = sources.flat_map(|source| self.in_turn(*source, &changed)).collect();
        due.into_iter().filter_map(|key| self.report(now, key, &changed)).collect()
    }

    /// The changes of a source that are due, after the last one that it had.
    fn in_turn(
        &self,
        source: EnvironmentSource,
        changed: &BTreeMap<EnvironmentKey, (i64, i64)>,
    ) -> Vec<EnvironmentKey> {
        let of_source = |(key, _): &(&EnvironmentKey, _)| key.source == source;
        let Some(last) = self.last.get(&source) else {
            let all = changed.iter().filter(of_source).map(|(key, _)| key.clone());
            return all.take(MAX_OF_READING).collect();
        };
        let after = changed.range((Bound::Excluded(last), Bound::Unbounded));
        let others = changed.range(..=last);
        let all = after.chain(others).filter(of_source).map(|(key, _)| key.clone());
        all.take(MAX_OF_READING).collect()
    }

    fn report(
        &mut self,
        at: Ns,
        key: EnvironmentKey,
        changed: &BTreeMap<EnvironmentKey, (i64, i64)>,
    ) -> Option<EnvironmentChange> {
        let values = *changed.get(&key)?;
        let known = self.known.get_mut(&key)?;
        known.is_over = !known.is_over;
        known.reported = values.1;
        let _before = self.last.insert(key.source, key.clone());
        let change = EnvironmentChange { at, key, values: Some(values), process: None };
        self.keep(change.clone());
        Some(change)
    }

    /// A process was killed because memory is used up: the change.
    pub fn add_kill(&mut self, at: Ns, name: &str, process: KilledProcess) -> EnvironmentChange {
        let mut kills =
            self.known.iter_mut().filter(|(key, _)| key.source == EnvironmentSource::Oom);
        let values = kills.next().map(|(_, known)| {
            known.reported += 1;
            (known.reported - 1, known.reported)
        });
        let source = EnvironmentSource::Oom;
        let key = EnvironmentKey { source, what: name.into(), kind: "kill".into() };
        let change = EnvironmentChange { at, key, values, process: Some(process) };
        self.keep(change.clone());
        change
    }

    /// Forgets the values, and keeps the changes.
    pub fn stop_following(&mut self) {
        self.known.clear();
        self.checks.clear();
        self.last.clear();
    }

    /// The changes so far, the oldest first.
    pub fn changes(&self) -> impl Iterator<Item = &EnvironmentChange> {
        self.changes.iter()
    }

    fn keep(&mut self, it: EnvironmentChange) {
        if self.changes.len() >= MAX_CHANGES {
            let mut count: BTreeMap<(EnvironmentSource, Option<u32>), usize> = BTreeMap::new();
            for it in &self.changes {
                *count.entry(it.owner()).or_default() += 1;
            }
            let most = count.into_iter().max_by_key(|(_, n)| *n).map(|(owner, _)| owner);
            let oldest = self.changes.iter().position(|it| Some(it.owner()) == most);
            drop(oldest.and_then(|place| self.changes.remove(place)));
        }
        self.changes.push_back(it);
    }
}

impl EnvironmentChange {
    /// In whose share of the log it is: a source, and the user of a process.
    fn owner(&self) -> (EnvironmentSource, Option<u32>) {
        (self.key.source, self.process.as_ref().and_then(|it| it.uid))
    }
}

impl KnownValue {
    fn first(it: &EnvironmentValue) -> Self {
        let is_over = matches!(it.rule, ChangeRule::Limit { limit, .. } if it.value >= limit);
        Self { reported: it.value, before: it.value, is_over }
    }

    /// Whether a value is a change; if it is none, and nothing that waits to be reported, it is
    /// what the next one is compared with.
    fn has_changed(&mut self, value: i64, rule: ChangeRule) -> bool {
        match rule {
            ChangeRule::Counter => {
                if value < self.reported {
                    self.reported = value;
                }
                value > self.reported
            }
            ChangeRule::State => value != self.reported,
            ChangeRule::Limit { limit, hysteresis } => {
                let has_changed = match self.is_over {
                    true => value < limit.saturating_sub(hysteresis),
                    false => value >= limit,
                };
                if !has_changed {
                    self.reported = value;
                }
                has_changed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use EnvironmentSource as Source;

    fn key(source: Source, what: &str) -> EnvironmentKey {
        EnvironmentKey { source, what: what.into(), kind: "k".into() }
    }

    fn counter(what: &str, value: i64) -> EnvironmentValue {
        EnvironmentValue { key: key(Source::Ecc, what), value, rule: ChangeRule::Counter }
    }

    fn kills(value: i64) -> EnvironmentValue {
        EnvironmentValue { key: key(Source::Oom, "node"), value, rule: ChangeRule::Counter }
    }

    #[track_caller]
    fn check(log: &mut EnvironmentLog, values: &[EnvironmentValue], want: &str) {
        let new = log.compare(Ns(1), values.to_vec(), true);
        let line = |it: &EnvironmentChange| {
            let (old, new) = it.values.unwrap();
            format!("{} {old}-{new}", it.key.what)
        };
        assert_eq!(new.iter().map(line).collect::<Vec<_>>().join(", "), want);
    }

    #[test]
    fn the_first_value_of_a_counter_and_one_that_was_reset_are_no_change() {
        let mut log = EnvironmentLog::default();
        check(&mut log, &[counter("a", 5)], "");
        check(&mut log, &[counter("a", 5), counter("b", 9)], "");
        check(&mut log, &[counter("a", 7), counter("b", 9)], "a 5-7");
        check(&mut log, &[counter("a", 0)], "");
        check(&mut log, &[counter("a", 1), counter("b", 12)], "a 0-1");
    }

    #[test]
    fn a_temperature_is_reported_when_it_passes_its_limit_and_is_below_it_for_sure() {
        let rule = ChangeRule::Limit { limit: 90, hysteresis: 2 };
        let at = |value| [EnvironmentValue { key: key(Source::Thermal, "z"), value, rule }];
        let mut log = EnvironmentLog::default();
        check(&mut log, &at(60), "");
        check(&mut log, &at(80), "");
        check(&mut log, &at(90), "z 80-90");
        check(&mut log, &at(95), "");
        check(&mut log, &at(89), "");
        check(&mut log, &at(87), "z 89-87");
    }

    #[test]
    fn a_state_is_reported_at_each_change() {
        let it = |value| {
            [EnvironmentValue { key: key(Source::Infiniband, "p"), value, rule: ChangeRule::State }]
        };
        let mut log = EnvironmentLog::default();
        check(&mut log, &it(1), "");
        check(&mut log, &it(0), "p 1-0");
        check(&mut log, &it(0), "");
        check(&mut log, &it(1), "p 0-1");
    }

    #[test]
    fn a_source_has_a_limit_for_a_reading_and_each_of_its_parts_has_its_turn() {
        let mut log = EnvironmentLog::default();
        let all =
            |value| -> Vec<_> { (0..40).map(|n| counter(&format!("{n:02}"), value)).collect() };
        let _first = log.compare(Ns(1), all(0), true);
        let mut seen = Vec::new();
        for value in 1..=3 {
            let new = log.compare(Ns(1), all(value), true);
            assert_eq!(new.len(), MAX_OF_READING);
            seen.extend(new.into_iter().map(|it| it.key.what));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 40);
    }

    #[test]
    fn machine_checks_of_a_bank_are_counted_from_the_first_on() {
        let mut log = EnvironmentLog::default();
        let count = |status, log: &mut EnvironmentLog| {
            log.count_machine_check(MachineCheck { cpu: 3, bank: 5, status });
        };
        (0..2).for_each(|_| count(1 << 63, &mut log));
        count(1 << 63 | 1 << 61, &mut log);
        let new = log.compare(Ns(1), Vec::new(), true);
        let lines: Vec<_> =
            new.iter().map(|it| (&*it.key.what, &*it.key.kind, it.values)).collect();
        let what = "cpu3 bank 5";
        let want = [(what, "corrected", Some((0, 2))), (what, "uncorrected", Some((0, 1)))];
        assert_eq!(lines, want);
        check(&mut log, &[], "");
        count(1 << 63, &mut log);
        check(&mut log, &[], "cpu3 bank 5 2-3");
    }

    fn killed(uid: u32) -> KilledProcess {
        KilledProcess {
            pid: Pid(7),
            uid: Some(uid),
            reader: Some(Credentials { uid, gid: uid }),
            job: None,
        }
    }

    #[test]
    fn a_kill_that_is_reported_is_counted_once_and_one_that_is_not_has_no_process() {
        let mut log = EnvironmentLog::default();
        check(&mut log, &[kills(2)], "");
        check(&mut log, &[kills(3)], "");
        assert_eq!(log.add_kill(Ns(2), "a", killed(1)).values, Some((2, 3)));
        check(&mut log, &[kills(3)], "");
        check(&mut log, &[kills(5)], "");
        check(&mut log, &[kills(5)], "node 3-5");
        assert_eq!(log.add_kill(Ns(2), "a", killed(1)).values, Some((5, 6)));
        check(&mut log, &[kills(6)], "");
        check(&mut log, &[kills(6)], "");
        check(&mut log, &[kills(6)], "");
        // The counter begins again.
        check(&mut log, &[kills(1)], "");
        check(&mut log, &[kills(2)], "");
        check(&mut log, &[kills(2)], "node 1-2");
    }

    #[test]
    fn without_reports_a_kill_is_found_at_once() {
        let mut log = EnvironmentLog::default();
        let _first = log.compare(Ns(1), vec![kills(2)], false);
        assert_eq!(log.compare(Ns(1), vec![kills(3)], false)[0].values, Some((2, 3)));
    }

    #[test]
    fn the_user_with_the_most_changes_loses_the_oldest() {
        let mut log = EnvironmentLog::default();
        let _first = log.add_kill(Ns(1), "other", killed(8));
        for _ in 0..MAX_CHANGES {
            let _more = log.add_kill(Ns(2), "a", killed(7));
        }
        assert_eq!(log.changes().count(), MAX_CHANGES);
        assert_eq!(&*log.changes().next().unwrap().key.what, "other");
    }
}
