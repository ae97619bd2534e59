//! The processes that a monitor was told to watch, for as long as they live.
//!
//! In: numbers and ranks, and what lives. Out: identities. A process that was named is the one
//! that had the number as the monitor began; who has the number later is somebody else. Each has
//! one last record: the kernel's own, or, if none came, what was seen of it last.

use super::plan::Targets;
use super::veil::Veil;
use crate::model::field::ProcessField;
use crate::model::id::{Identity, Pid};
use crate::model::request::Rank;
use crate::model::sample::{Birth, Note, Process};
use crate::model::status::Refusal;
use std::collections::{BTreeMap, BTreeSet};

/// Knows who is which rank of a parallel job.
pub trait Namespaces {
    /// The processes that are this rank, or all of a namespace.
    fn processes(&self, rank: &Rank) -> Vec<Identity>;
}

/// Where no parallel job is known.
pub struct NoNamespaces;

impl Namespaces for NoNamespaces {
    fn processes(&self, _: &Rank) -> Vec<Identity> {
        Vec::new()
    }
}

/// What is watched.
pub struct Watched {
    targets: Option<Targets>,
    /// Those that live, with what was seen of them last.
    living: BTreeMap<Identity, Option<Box<Process>>>,
    /// Those whose end was told.
    told: BTreeSet<Identity>,
    /// Whether anybody was there ever.
    begun: bool,
}

impl Watched {
    /// Those that were named; everybody, if none was.
    pub const fn new(targets: Option<Targets>) -> Self {
        Self { targets, living: BTreeMap::new(), told: BTreeSet::new(), begun: false }
    }

    /// Finds those that were named among those that live.
    pub fn learn(&mut self, living: &[Process], namespaces: &dyn Namespaces, veil: &Veil) {
        let Some(targets) = &self.targets else { return };
        let visible = |at: usize| living.get(at).filter(|it| veil.shows(it));
        if !self.begun {
            for pid in &targets.pids {
                let at = living.partition_point(|it| it.id.pid < *pid);
                if let Some(process) = visible(at).filter(|it| it.id.pid == *pid) {
                    self.living.insert(process.id, None);
                }
            }
        }
        for id in targets.ranks.iter().flat_map(|rank| namespaces.processes(rank)) {
            // That it is this rank is told by its environment, which may not be his to read.
            let seen = living
                .binary_search_by_key(&id, |it| it.id)
                .is_ok_and(|at| visible(at).is_some_and(|it| veil.opens(it)));
            if seen && !self.told.contains(&id) {
                self.living.entry(id).or_default();
            }
        }
        self.begun = true;
    }

    /// Those that are watched, if they were named.
    pub fn identities(&self) -> Option<impl Iterator<Item = &Identity>> {
        self.targets.is_some().then(|| self.living.keys())
    }

    /// Whether a process is watched.
    pub fn admits(&self, process: &Process) -> bool {
        self.targets.is_none() || self.living.contains_key(&process.id)
    }

    /// Takes note of who has ended. Who is gone without a record, and of whom none will come,
    /// gets one: what was seen of him last.
    pub fn settle(&mut self, now: &mut Vec<Process>, dying: &[Birth]) {
        if self.targets.is_none() {
            return;
        }
        for process in now.iter() {
            if process.ended() {
                self.living.remove(&process.id);
                self.told.insert(process.id);
            } else if let Some(last) = self.living.get_mut(&process.id) {
                *last = Some(Box::new(process.clone()));
            }
        }
        let there = |id: &Identity| now.iter().any(|it| it.id == *id);
        let silent: Vec<Identity> = self
            .living
            .keys()
            .filter(|id| !there(id) && !dying.iter().any(|it| it.id == **id))
            .copied()
            .collect();
        for id in silent {
            if let Some(Some(mut last)) = self.living.remove(&id) {
                last.row.set(ProcessField::Ended, 1);
                last.row.set(ProcessField::Approximate, 1);
                now.push(*last);
            }
            self.told.insert(id);
        }
    }

    /// Whether all that were named are gone.
    pub fn gone(&self) -> bool {
        self.targets.is_some() && self.living.is_empty() && !self.told.is_empty()
    }

    /// At first, each process that was named by its number must be there.
    pub fn check(&self, notes: &mut Vec<Note>) -> Result<(), Refusal> {
        let Some(targets) = &self.targets else { return Ok(()) };
        let there = |pid: &Pid| self.living.keys().chain(&self.told).any(|id| id.pid == *pid);
        let absent: Vec<_> = targets.pids.iter().filter(|pid| !there(pid)).collect();
        if absent.is_empty() {
            return Ok(());
        }
        if absent.len() == targets.pids.len() && targets.ranks.is_empty() {
            let all: Vec<_> = absent.iter().map(|Pid(pid)| pid.to_string()).collect();
            return Err(Refusal::absent(format!("no process {}", all.join(", "))));
        }
        notes.extend(absent.iter().map(|Pid(pid)| Note::missing(format!("no process {pid}"))));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::Ns;

    fn process(pid: u32, start: u64) -> Process {
        Process { id: Identity { pid: Pid(pid), start: Ns(start) }, ..Process::default() }
    }

    fn watched(pids: &[u32]) -> Watched {
        let pids = pids.iter().copied().map(Pid).collect();
        Watched::new(Some(Targets { pids, ranks: Vec::new() }))
    }

    fn turn(watched: &mut Watched, living: Vec<Process>, dying: &[Birth]) -> Vec<(u32, bool)> {
        watched.learn(&living, &NoNamespaces, &Veil::None);
        let mut now: Vec<_> = living.into_iter().filter(|it| watched.admits(it)).collect();
        watched.settle(&mut now, dying);
        now.iter().map(|it| (it.id.pid.0, it.ended())).collect()
    }

    #[test]
    fn a_reused_number_is_somebody_else() {
        let mut it = watched(&[7]);
        assert_eq!(turn(&mut it, vec![process(7, 1)], &[]), [(7, false)]);
        assert_eq!(turn(&mut it, vec![process(7, 2)], &[]), [(7, true)]);
        assert!(it.gone());
        assert_eq!(turn(&mut it, vec![process(7, 2)], &[]), []);
    }

    #[test]
    fn one_whose_last_record_is_on_its_way_is_waited_for() {
        let mut it = watched(&[7]);
        let _there = turn(&mut it, vec![process(7, 1)], &[]);
        let dying = Birth { id: process(7, 1).id, parent: None };
        assert_eq!(turn(&mut it, vec![], &[dying]), []);
        assert!(!it.gone());
        let mut last = process(7, 1);
        last.row.set(ProcessField::Ended, 1);
        assert_eq!(turn(&mut it, vec![last], &[]), [(7, true)]);
        assert!(it.gone());
    }

    #[test]
    fn those_that_are_not_there_at_first_are_named() {
        let mut it = watched(&[7, 9]);
        let _there = turn(&mut it, vec![process(7, 1)], &[]);
        let mut notes = Vec::new();
        assert_eq!(it.check(&mut notes), Ok(()));
        assert_eq!(notes, [Note::missing("no process 9")]);
        let mut none = watched(&[9]);
        let _there = turn(&mut none, vec![process(7, 1)], &[]);
        let refusal = none.check(&mut notes).expect_err("nobody is there");
        assert_eq!(refusal.message, "no process 9");
    }

    #[test]
    fn ranks_may_join_late() {
        struct Job(Vec<Identity>);
        impl Namespaces for Job {
            fn processes(&self, _: &Rank) -> Vec<Identity> {
                self.0.clone()
            }
        }
        let rank = Rank { namespace: "job".into(), rank: None };
        let mut it = Watched::new(Some(Targets { pids: Vec::new(), ranks: vec![rank] }));
        it.learn(&[process(3, 1)], &Job(Vec::new()), &Veil::None);
        assert!(!it.admits(&process(3, 1)) && !it.gone());
        it.learn(&[process(3, 1)], &Job(vec![process(3, 1).id]), &Veil::None);
        assert!(it.admits(&process(3, 1)));
    }
}
