//! Many processes that tell the same, as one line with a count.
//!
//! In: diagnoses. Out: the first of each event and job at once, and what the other processes of
//! that job told meanwhile as one line, at most every so often. What the first one tells again is
//! told: its own pace is that of its thresholds.

use monitor_model::diagnosis::{Diagnosis, Why};
use monitor_model::id::{Ns, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most processes that one line counts apart.
const MOST: usize = 65_536;

/// What is the same: the event, the job, whether it is an end.
type Same = (Arc<str>, Option<Arc<str>>, Option<Arc<str>>, bool);

/// Lines that wait for others like them.
#[derive(Debug, Default)]
pub struct Fold {
    groups: BTreeMap<Same, Group>,
}

#[derive(Debug)]
struct Group {
    first: Option<Pid>,
    until: Ns,
    held: Option<(Diagnosis, BTreeSet<Option<Pid>>)>,
}

impl Fold {
    /// Takes a line in; gives it back if it is to be told at once.
    pub fn take(&mut self, it: Diagnosis, now: Ns, every: Ns) -> Option<Diagnosis> {
        let Some(pid) = it.whose.pid.filter(|_| every.0 > 0) else { return Some(it) };
        let is_end = matches!(it.why, Why::Finalize { .. });
        let (family, job) = (it.whose.family.clone(), it.whose.local_job.clone());
        let until = Ns(now.0.saturating_add(every.0));
        let fresh = || Group { first: None, until, held: None };
        let group = self.groups.entry((Arc::clone(&it.event), family, job, is_end));
        let group = group.or_insert_with(fresh);
        if group.first.is_none_or(|first| first == pid) {
            group.first = Some(pid);
            return Some(it);
        }
        match &mut group.held {
            None => group.held = Some((it, [Some(pid)].into())),
            Some((held, who)) => join(held, who, &it),
        }
        None
    }

    /// When lines that wait are to be told.
    pub fn due(&self) -> Option<Ns> {
        self.groups.values().map(|group| group.until).min()
    }

    /// Those that have waited long enough.
    pub fn told(&mut self, now: Ns, every: Ns) -> Vec<Diagnosis> {
        let mut told = Vec::new();
        self.groups.retain(|_, group| {
            if group.until > now {
                return true;
            }
            group.until = Ns(now.0.saturating_add(every.0));
            let held = group.held.take().map(|(held, _)| held);
            let is_busy = held.is_some();
            told.extend(held);
            is_busy
        });
        told
    }

    /// All of them, now.
    pub fn rest(&mut self) -> Vec<Diagnosis> {
        let groups = std::mem::take(&mut self.groups);
        groups.into_values().filter_map(|it| it.held).map(|(held, _)| held).collect()
    }
}

fn join(held: &mut Diagnosis, who: &mut BTreeSet<Option<Pid>>, it: &Diagnosis) {
    held.count = held.count.saturating_add(it.count);
    if who.len() < MOST && who.insert(it.whose.pid) {
        held.processes += 1;
    }
    held.why = match (held.why, it.why) {
        (
            Why::Finalize { total, was_told },
            Why::Finalize { total: more, was_told: others_told },
        ) => Why::Finalize { total: total + more, was_told: was_told || others_told },
        (Why::Again(one), Why::Again(other)) => Why::Again(Ns(one.0.max(other.0))),
        (Why::First, other) | (other, _) => other,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::diagnosis::Whose;

    const EVERY: Ns = Ns(5);

    fn of(pid: u32, count: u64) -> Diagnosis {
        Diagnosis {
            at: Ns(0),
            host: "n".into(),
            event: "e".into(),
            message: "m".into(),
            count,
            why: Why::First,
            whose: Whose::rank("65537", pid, Pid(pid)),
            processes: 1,
        }
    }

    #[test]
    fn what_others_tell_meanwhile_is_one_line() {
        let mut fold = Fold::default();
        assert!(fold.take(of(1, 10), Ns(0), EVERY).is_some());
        for pid in 2..=24 {
            assert_eq!(fold.take(of(pid, 10), Ns(1), EVERY), None);
        }
        assert_eq!(fold.take(of(1, 7), Ns(2), EVERY).map(|it| it.count), Some(7));
        assert_eq!((fold.told(Ns(4), EVERY), fold.due()), (vec![], Some(Ns(5))));
        let told = fold.told(Ns(5), EVERY);
        assert_eq!((told[0].processes, told[0].count, told.len()), (23, 230, 1));
        // Nothing more came: the next is a first again.
        assert_eq!((fold.told(Ns(10), EVERY), fold.due()), (vec![], None));
        assert!(fold.take(of(3, 10), Ns(11), EVERY).is_some());
    }

    #[test]
    fn nothing_is_held_back_where_it_is_not_wanted() {
        let mut fold = Fold::default();
        assert!(fold.take(of(1, 1), Ns(0), Ns(0)).is_some());
        assert!(fold.take(of(2, 1), Ns(0), Ns(0)).is_some());
    }
}
