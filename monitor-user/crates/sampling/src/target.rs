//! The processes that a monitor was told to watch, for as long as they live.
//!
//! In: numbers and ranks, and what lives. Out: identities. A process that was named is the one
//! that had the number as the monitor began; who has the number later is somebody else. Each has
//! one last record: the kernel's own, or, if none came, what was seen of it last.

use super::plan::Targets;
use super::veil::Veil;
use monitor_model::field::ProcessField;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::request::Rank;
use monitor_model::sample::{Birth, Note, Process};
use monitor_model::status::Refusal;
use monitor_model::unseen;
use monitor_model::unseen::Unseen;
use monitor_sys::pidfd::Held;
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
    /// Ranks that nobody was as it began.
    vacant: Vec<Rank>,
    /// Those who are held, so that their end is known; tried once.
    held: BTreeMap<Identity, Option<Held>>,
    /// Those who were not there, and since when.
    missing: BTreeMap<Identity, Ns>,
}

/// What a reading says of those who are not in it.
#[derive(Clone, Copy, Default)]
pub struct Absence<'a> {
    /// When it was.
    pub at: Ns,
    /// Those whose last record is on its way.
    pub dying: &'a [Birth],
    /// How long a last record may take; it will not come, if this is nothing.
    pub patience: Ns,
}

impl Watched {
    /// Those that were named; everybody, if none was.
    pub const fn new(targets: Option<Targets>) -> Self {
        Self {
            targets,
            living: BTreeMap::new(),
            told: BTreeSet::new(),
            begun: false,
            vacant: Vec::new(),
            held: BTreeMap::new(),
            missing: BTreeMap::new(),
        }
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
        // That it is this rank is told by its environment, which may not be his to read.
        let opens = |at: usize| visible(at).is_some_and(|it| veil.opens(it));
        let seen = |id: &Identity| living.binary_search_by_key(id, |it| it.id).is_ok_and(opens);
        for rank in &targets.ranks {
            let those: Vec<_> = namespaces.processes(rank).into_iter().filter(seen).collect();
            if those.is_empty() && !self.begun {
                self.vacant.push(rank.clone());
            }
            for id in those.into_iter().filter(|id| !self.told.contains(id)) {
                self.living.entry(id).or_default();
            }
        }
        self.begun = true;
    }

    /// Those that are watched, if they were named.
    pub fn identities(&self) -> Option<impl Iterator<Item = &Identity>> {
        self.targets.is_some().then(|| self.living.keys())
    }

    /// Their process ids, if these are all that must be read: nobody can join later.
    pub fn pids(&self) -> Option<Vec<Pid>> {
        let targets = self.targets.as_ref().filter(|it| it.ranks.is_empty())?;
        Some(match self.begun {
            true => self.living.keys().map(|id| id.pid).collect(),
            false => targets.pids.clone(),
        })
    }

    /// Whether nobody of them is missing in a list that is in the order of identities.
    pub fn all_in(&self, processes: &[Process]) -> bool {
        let pid = |pid: &Pid| processes.binary_search_by_key(pid, |it| it.id.pid).is_ok();
        let same = |id: &Identity| processes.binary_search_by_key(id, |it| it.id).is_ok();
        match (&self.targets, self.begun) {
            (Some(targets), false) => targets.pids.iter().all(pid),
            _ => self.living.keys().all(same),
        }
    }

    /// Whether a process is watched.
    pub fn admits(&self, process: &Process) -> bool {
        self.targets.is_none() || self.living.contains_key(&process.id)
    }

    /// Holds those that live and are not held.
    pub fn hold(&mut self, hold: &mut dyn FnMut(Identity) -> Option<Held>) {
        if self.targets.is_none() {
            return;
        }
        self.held.retain(|id, _| self.living.contains_key(id));
        for id in self.living.keys() {
            self.held.entry(*id).or_insert_with(|| hold(*id));
        }
    }

    /// Takes note of who has ended. Who is gone without a record, and of whom none will come,
    /// gets one: what was seen of him last. Says whether anybody has ended.
    pub fn settle(&mut self, now: &mut Vec<Process>, absence: Absence<'_>) -> bool {
        if self.targets.is_none() {
            return now.iter().any(Process::ended);
        }
        for process in now.iter() {
            if process.ended() {
                self.living.remove(&process.id);
                self.told.insert(process.id);
            } else if let Some(last) = self.living.get_mut(&process.id) {
                *last = Some(Box::new(process.clone()));
            }
        }
        for id in self.silent(now, absence) {
            if let Some(Some(mut last)) = self.living.remove(&id) {
                last.row.set(ProcessField::Ended, 1);
                last.row.set(ProcessField::Approximate, 1);
                let held = self.held.get(&id).and_then(Option::as_ref);
                last.row.set_some(ProcessField::ExitCode, held.and_then(Held::exit_code));
                now.push(*last);
            }
            self.told.insert(id);
        }
        now.iter().any(Process::ended)
    }

    /// Those who are gone and of whom no record will come. One of a process that began before
    /// anybody looked is not announced: it is waited for all the same.
    fn silent(&mut self, now: &[Process], absence: Absence<'_>) -> Vec<Identity> {
        let there = |id: &Identity| now.iter().any(|it| it.id == *id);
        let announced = |id: &Identity| absence.dying.iter().any(|it| it.id == *id);
        let gone: Vec<Identity> = self.living.keys().filter(|id| !there(id)).copied().collect();
        self.missing.retain(|id, _| gone.contains(id));
        let mut silent = Vec::new();
        for id in gone {
            let since = *self.missing.entry(id).or_insert(absence.at);
            if !announced(&id) && absence.at.since(since) >= absence.patience {
                silent.push(id);
            }
        }
        silent
    }

    /// Whether all that were named are gone.
    pub fn gone(&self) -> bool {
        self.targets.is_some() && self.living.is_empty() && !self.told.is_empty()
    }

    /// At first, each process that was named by its number or rank must be there; a rank that is
    /// waited for may come later.
    pub fn check(
        &self,
        notes: &mut Vec<Note>,
        (waits, unseen): (bool, &[Unseen]),
    ) -> Result<(), Refusal> {
        let Some(targets) = &self.targets else { return Ok(()) };
        let there = |pid: &Pid| self.living.keys().chain(&self.told).any(|id| id.pid == *pid);
        let absent: Vec<_> = targets.pids.iter().filter(|pid| !there(pid)).collect();
        let pids = absent.iter().map(|Pid(pid)| format!("process {pid}"));
        let missing: Vec<String> = pids.chain(self.vacant.iter().map(named)).collect();
        let nobody = missing.len() == targets.pids.len() + targets.ranks.len();
        if nobody && !(waits && absent.is_empty()) {
            let cause = unseen::cause(unseen, absent.into_iter().copied());
            return Err(Refusal::absent(format!("no {}{cause}", missing.join(", "))));
        }
        let causes = absent.into_iter().map(|pid| unseen::cause(unseen, std::iter::once(*pid)));
        let causes = causes.chain(std::iter::repeat(String::new()));
        let absent = missing.iter().zip(causes);
        notes.extend(absent.map(|(it, cause)| Note::missing(format!("no {it}{cause}"))));
        Ok(())
    }
}

fn named(rank: &Rank) -> String {
    match rank.rank {
        Some(number) => format!("rank {number} of {:?}", rank.namespace),
        None => format!("process of {:?}", rank.namespace),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Ns;

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
        let _ended = watched.settle(&mut now, Absence { dying, ..Absence::default() });
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
        assert_eq!(it.check(&mut notes, (false, &[])), Ok(()));
        assert_eq!(notes, [Note::missing("no process 9")]);
        let mut none = watched(&[9]);
        let _there = turn(&mut none, vec![process(7, 1)], &[]);
        let refusal = none.check(&mut notes, (false, &[])).expect_err("nobody is there");
        assert_eq!(refusal.message, "no process 9");
        let unseen = [Unseen { pid: Some(Pid(9)), why: "nobody sees it".into() }];
        let refusal = none.check(&mut notes, (false, &unseen)).expect_err("nobody is there");
        assert_eq!(refusal.message, "no process 9: nobody sees it");
        let noted = it.check(&mut notes, (false, &unseen));
        assert_eq!((noted, &*notes[1].text), (Ok(()), "no process 9: nobody sees it"));
    }

    #[test]
    fn a_record_that_was_not_announced_is_waited_for_where_records_come() {
        let mut it = watched(&[7]);
        let _there = turn(&mut it, vec![process(7, 1)], &[]);
        let mut at = |ms: u64, mut now: Vec<Process>| {
            let patience = Ns(1_000);
            let _ended = it.settle(&mut now, Absence { at: Ns(ms), patience, dying: &[] });
            (now.iter().map(Process::ended).collect::<Vec<_>>(), it.gone())
        };
        assert_eq!(at(500, vec![]), (vec![], false));
        assert_eq!(at(1_499, vec![]), (vec![], false));
        assert_eq!(at(1_500, vec![]), (vec![true], true));
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
