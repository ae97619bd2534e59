//! Deduplication: the same diagnosis of many processes becomes one line with a count.
//!
//! In: diagnoses. Out: the first of each event and job at once, and those of the other processes of
//! the job collected into one line per interval. Further ones of the first process pass through:
//! its thresholds limit them.

use monitor_model::{DiagReason, Diagnosis, Identity, Ns};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of processes that one line tells apart.
const MAX_PROCESSES: usize = 65_536;

/// What makes diagnoses equal: the event, the job, and whether it is the report at the end.
type GroupKey = (Arc<str>, Option<Arc<str>>, Option<Arc<str>>, bool);

/// The diagnoses being collected.
#[derive(Debug, Default)]
pub struct Dedup {
    groups: BTreeMap<GroupKey, DedupGroup>,
}

#[derive(Debug)]
struct DedupGroup {
    first: Option<Identity>,
    until: Ns,
    held: Option<(Diagnosis, BTreeSet<Identity>)>,
}

impl Dedup {
    /// Adds a diagnosis; returns it if it is to be reported at once.
    pub fn add(&mut self, it: Diagnosis, now: Ns, every: Ns) -> Option<Diagnosis> {
        let Some(process) = it.process.filter(|_| every.0 > 0) else { return Some(it) };
        let is_end = matches!(it.reason, DiagReason::Finalize { .. });
        let (family, job) = (it.origin.family.clone(), it.origin.local_job.clone());
        let until = Ns(now.0.saturating_add(every.0));
        let fresh = || DedupGroup { first: None, until, held: None };
        let group = self.groups.entry((Arc::clone(&it.event), family, job, is_end));
        let group = group.or_insert_with(fresh);
        if group.first.is_none_or(|first| first == process) {
            group.first = Some(process);
            return Some(it);
        }
        match &mut group.held {
            None => group.held = Some((it, [process].into())),
            Some((held, processes)) => {
                if processes.len() < MAX_PROCESSES && processes.insert(process) {
                    held.processes += 1;
                }
                merge(held, &it);
            }
        }
        None
    }

    /// When collected lines are due.
    pub fn due(&self) -> Option<Ns> {
        self.groups.values().map(|group| group.until).min()
    }

    /// The collected lines that are due.
    pub fn take_due(&mut self, now: Ns, every: Ns) -> Vec<Diagnosis> {
        let mut due = Vec::new();
        self.groups.retain(|_, group| {
            if group.until > now {
                return true;
            }
            group.until = Ns(now.0.saturating_add(every.0));
            let held = group.held.take().map(|(held, _)| held);
            let is_busy = held.is_some();
            due.extend(held);
            is_busy
        });
        due
    }

    /// All collected lines.
    pub fn take_all(&mut self) -> Vec<Diagnosis> {
        let groups = std::mem::take(&mut self.groups);
        groups.into_values().filter_map(|it| it.held).map(|(held, _)| held).collect()
    }
}

fn merge(held: &mut Diagnosis, it: &Diagnosis) {
    held.count = held.count.saturating_add(it.count);
    held.reason = match (held.reason, it.reason) {
        (
            DiagReason::Finalize { total, was_reported },
            DiagReason::Finalize { total: more, was_reported: other_reported },
        ) => DiagReason::Finalize {
            total: total + more,
            was_reported: was_reported || other_reported,
        },
        (DiagReason::Again(one), DiagReason::Again(other)) => {
            DiagReason::Again(Ns(one.0.max(other.0)))
        }
        (DiagReason::First, other) | (other, _) => other,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::{Pid, diagnosis::DiagOrigin};

    const EVERY: Ns = Ns(5);

    fn diagnosis(pid: u32, count: u64) -> Diagnosis {
        Diagnosis {
            at: Ns(0),
            host: "n".into(),
            event: "e".into(),
            message: "m".into(),
            count,
            reason: DiagReason::First,
            process: Some(Identity { pid: Pid(pid), start: Ns(1) }),
            origin: DiagOrigin::rank("65537", pid, Pid(pid)),
            processes: 1,
        }
    }

    #[test]
    fn diagnoses_of_other_processes_are_collected_into_one_line() {
        let mut fold = Dedup::default();
        assert!(fold.add(diagnosis(1, 10), Ns(0), EVERY).is_some());
        for pid in 2..=24 {
            assert_eq!(fold.add(diagnosis(pid, 10), Ns(1), EVERY), None);
        }
        assert_eq!(fold.add(diagnosis(1, 7), Ns(2), EVERY).map(|it| it.count), Some(7));
        assert_eq!((fold.take_due(Ns(4), EVERY), fold.due()), (vec![], Some(Ns(5))));
        let due = fold.take_due(Ns(5), EVERY);
        assert_eq!((due[0].processes, due[0].count, due.len()), (23, 230, 1));
        // None came in the next interval: the next one is a first again.
        assert_eq!((fold.take_due(Ns(10), EVERY), fold.due()), (vec![], None));
        assert!(fold.add(diagnosis(3, 10), Ns(11), EVERY).is_some());
    }

    #[test]
    fn an_interval_of_zero_collects_nothing() {
        let mut fold = Dedup::default();
        assert!(fold.add(diagnosis(1, 1), Ns(0), Ns(0)).is_some());
        assert!(fold.add(diagnosis(2, 1), Ns(0), Ns(0)).is_some());
    }
}
