//! The targets of a monitor, while they live.
//!
//! In: process ids and ranks, and the living processes. Out: identities. A process id means the
//! process that had it when the monitor started; a later process with the same id is another one.
//! Each target has one exit record: the first sample of it as a zombie; if it was waited for before
//! that, the kernel's own record; or else its last sample.

use super::{plan::Targets, visibility::Visibility};
use monitor_model::{
    HiddenProcess, Identity, Note, Ns, Pid, Process, ProcessField, ProcessParent, RankTarget,
    Refusal, hidden,
};
use monitor_sys::pidfd::PidFd;
use std::collections::{BTreeMap, BTreeSet};

/// Looks up ranks of parallel jobs.
pub trait Namespaces {
    /// The processes that are this rank, or all of a namespace.
    fn processes(&self, rank: &RankTarget) -> Vec<Identity>;
}

/// No ranks.
pub struct NoNamespaces;

impl Namespaces for NoNamespaces {
    fn processes(&self, _: &RankTarget) -> Vec<Identity> {
        Vec::new()
    }
}

/// The watched targets.
#[derive(Default)]
pub struct WatchedTargets {
    targets: Option<Targets>,
    /// The living ones, with their last sample.
    living: BTreeMap<Identity, Option<Box<Process>>>,
    /// Those whose exit was reported.
    reported: BTreeSet<Identity>,
    /// Whether the targets have been resolved once.
    is_resolved: bool,
    /// Ranks without a process at the start.
    absent_ranks: Vec<RankTarget>,
    /// A pidfd for each, for its exit code; opened once.
    pidfds: BTreeMap<Identity, Option<PidFd>>,
    /// Those that are missing, and since when.
    missing: BTreeMap<Identity, Ns>,
    /// Those whose exit record in the last update was made of their last sample.
    last_read: Vec<Identity>,
}

/// What a reading says about processes that are not in it.
#[derive(Clone, Copy, Default)]
pub struct Absence<'a> {
    /// Time of the reading.
    pub at: Ns,
    /// Exited processes whose record has not arrived.
    pub dying: &'a [ProcessParent],
    /// How long a record may take; zero if none will come.
    pub record_timeout: Ns,
}

impl WatchedTargets {
    /// The named targets; all processes if `None`.
    pub fn new(targets: Option<Targets>) -> Self {
        Self { targets, ..Self::default() }
    }

    /// Finds the targets among the living processes.
    pub fn resolve(
        &mut self,
        living: &[Process],
        namespaces: &dyn Namespaces,
        visibility: &Visibility,
    ) {
        let Some(targets) = &self.targets else { return };
        let visible = |at: usize| living.get(at).filter(|it| visibility.shows(it));
        if !self.is_resolved {
            for pid in &targets.pids {
                let at = living.partition_point(|it| it.id.pid < *pid);
                if let Some(process) = visible(at).filter(|it| it.id.pid == *pid) {
                    self.living.insert(process.id, None);
                }
            }
        }
        // A rank comes from the environment, which the user may not be allowed to read.
        let is_readable = |at: usize| visible(at).is_some_and(|it| visibility.shows_all_of(it));
        let is_visible =
            |id: &Identity| living.binary_search_by_key(id, |it| it.id).is_ok_and(is_readable);
        for rank in &targets.ranks {
            let found: Vec<_> = namespaces.processes(rank).into_iter().filter(is_visible).collect();
            if found.is_empty() && !self.is_resolved {
                self.absent_ranks.push(rank.clone());
            }
            for id in found.into_iter().filter(|id| !self.reported.contains(id)) {
                self.living.entry(id).or_default();
            }
        }
        self.is_resolved = true;
    }

    /// The living targets; `None` if all processes are targets.
    pub fn identities(&self) -> Option<impl Iterator<Item = &Identity>> {
        self.targets.is_some().then(|| self.living.keys())
    }

    /// Their process ids, if no process can join later; else `None`.
    pub fn pids(&self) -> Option<Vec<Pid>> {
        let targets = self.targets.as_ref().filter(|it| it.ranks.is_empty())?;
        Some(match self.is_resolved {
            true => self.living.keys().map(|id| id.pid).collect(),
            false => targets.pids.clone(),
        })
    }

    /// Whether a list in the order of identities has all targets.
    pub fn all_in(&self, processes: &[Process]) -> bool {
        let pid = |pid: &Pid| processes.binary_search_by_key(pid, |it| it.id.pid).is_ok();
        let same = |id: &Identity| processes.binary_search_by_key(id, |it| it.id).is_ok();
        match (&self.targets, self.is_resolved) {
            (Some(targets), false) => targets.pids.iter().all(pid),
            _ => self.living.keys().all(same),
        }
    }

    /// Whether a process is a target.
    pub fn admits(&self, process: &Process) -> bool {
        self.targets.is_none() || self.living.contains_key(&process.id)
    }

    /// Opens a pidfd for each living target that has none.
    pub fn open_pidfds(&mut self, open: &mut dyn FnMut(Identity) -> Option<PidFd>) {
        if self.targets.is_none() {
            return;
        }
        self.pidfds.retain(|id, _| self.living.contains_key(id));
        for id in self.living.keys() {
            self.pidfds.entry(*id).or_insert_with(|| open(*id));
        }
    }

    /// Updates the targets with the processes of a reading. Adds an exit record, made of its last
    /// sample, for each target that is gone and will get none. Returns whether any has ended.
    pub fn update(&mut self, now: &mut Vec<Process>, absence: Absence<'_>) -> bool {
        if self.targets.is_none() {
            return now.iter().any(Process::ended);
        }
        self.last_read.clear();
        for process in now.iter_mut() {
            // It has ended, whenever its parent waits for it; its final record comes later.
            process.end_zombie();
            if process.ended() {
                self.living.remove(&process.id);
                self.reported.insert(process.id);
            } else if let Some(last) = self.living.get_mut(&process.id) {
                *last = Some(Box::new(process.clone()));
            }
        }
        for id in self.without_record(now, absence) {
            if let Some(Some(mut last)) = self.living.remove(&id) {
                last.row.set(ProcessField::Ended, 1);
                last.row.set(ProcessField::Approximate, 1);
                let pidfd = self.pidfds.get(&id).and_then(Option::as_ref);
                last.row.set_some(ProcessField::ExitCode, pidfd.and_then(PidFd::exit_code));
                now.push(*last);
                self.last_read.push(id);
            }
            self.reported.insert(id);
        }
        now.iter().any(Process::ended)
    }

    /// The targets whose exit record in the last update was made of their last sample.
    pub fn last_read(&self) -> &[Identity] {
        &self.last_read
    }

    /// Targets that are gone and will get no record. The record of a process older than the hooks
    /// is not announced; it is waited for as well.
    fn without_record(&mut self, now: &[Process], absence: Absence<'_>) -> Vec<Identity> {
        let there = |id: &Identity| now.iter().any(|it| it.id == *id);
        let announced = |id: &Identity| absence.dying.iter().any(|it| it.id == *id);
        let gone: Vec<Identity> = self.living.keys().filter(|id| !there(id)).copied().collect();
        self.missing.retain(|id, _| gone.contains(id));
        let mut without_record = Vec::new();
        for id in gone {
            let since = *self.missing.entry(id).or_insert(absence.at);
            if !announced(&id) && absence.at.since(since) >= absence.record_timeout {
                without_record.push(id);
            }
        }
        without_record
    }

    /// Whether all named targets have ended.
    pub fn all_ended(&self) -> bool {
        self.targets.is_some() && self.living.is_empty() && !self.reported.is_empty()
    }

    /// Checks at the first reading that each named target exists, and notes those that do not. A
    /// followed rank may come later.
    ///
    /// # Errors
    /// If no named target exists.
    pub fn check_present(
        &self,
        notes: &mut Vec<Note>,
        (follow, hidden_processes): (bool, &[HiddenProcess]),
    ) -> Result<(), Refusal> {
        let Some(targets) = &self.targets else { return Ok(()) };
        let there = |pid: &Pid| self.living.keys().chain(&self.reported).any(|id| id.pid == *pid);
        let absent: Vec<_> = targets.pids.iter().filter(|pid| !there(pid)).collect();
        let pids = absent.iter().map(|Pid(pid)| format!("process {pid}"));
        let missing: Vec<String> = pids.chain(self.absent_ranks.iter().map(named)).collect();
        let none_exists = missing.len() == targets.pids.len() + targets.ranks.len();
        if none_exists && !(follow && absent.is_empty()) {
            let cause = hidden::cause(hidden_processes, absent.into_iter().copied());
            return Err(Refusal::absent(format!("no {}{cause}", missing.join(", "))));
        }
        let causes =
            absent.into_iter().map(|pid| hidden::cause(hidden_processes, std::iter::once(*pid)));
        let causes = causes.chain(std::iter::repeat(String::new()));
        let absent = missing.iter().zip(causes);
        notes.extend(absent.map(|(it, cause)| Note::missing(format!("no {it}{cause}"))));
        Ok(())
    }
}

fn named(rank: &RankTarget) -> String {
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

    fn watched(pids: &[u32]) -> WatchedTargets {
        let pids = pids.iter().copied().map(Pid).collect();
        WatchedTargets::new(Some(Targets { pids, ranks: Vec::new() }))
    }

    fn update(
        watched: &mut WatchedTargets,
        living: Vec<Process>,
        dying: &[ProcessParent],
    ) -> Vec<(u32, bool)> {
        watched.resolve(&living, &NoNamespaces, &Visibility::All);
        let mut now: Vec<_> = living.into_iter().filter(|it| watched.admits(it)).collect();
        let _ended = watched.update(&mut now, Absence { dying, ..Absence::default() });
        now.iter().map(|it| (it.id.pid.0, it.ended())).collect()
    }

    #[test]
    fn a_reused_process_id_is_another_process() {
        let mut it = watched(&[7]);
        assert_eq!(update(&mut it, vec![process(7, 1)], &[]), [(7, false)]);
        assert_eq!(update(&mut it, vec![process(7, 2)], &[]), [(7, true)]);
        assert!(it.all_ended());
        assert_eq!(update(&mut it, vec![process(7, 2)], &[]), []);
    }

    #[test]
    fn an_announced_exit_record_is_waited_for() {
        let mut it = watched(&[7]);
        let _there = update(&mut it, vec![process(7, 1)], &[]);
        let dying = ProcessParent { id: process(7, 1).id, parent: None };
        assert_eq!(update(&mut it, vec![], &[dying]), []);
        assert!(!it.all_ended());
        let mut last = process(7, 1);
        last.row.set(ProcessField::Ended, 1);
        assert_eq!(update(&mut it, vec![last], &[]), [(7, true)]);
        assert!(it.all_ended());
    }

    #[test]
    fn missing_targets_are_named_at_the_start() {
        let mut it = watched(&[7, 9]);
        let _there = update(&mut it, vec![process(7, 1)], &[]);
        let mut notes = Vec::new();
        assert_eq!(it.check_present(&mut notes, (false, &[])), Ok(()));
        assert_eq!(notes, [Note::missing("no process 9")]);
        let mut none = watched(&[9]);
        let _there = update(&mut none, vec![process(7, 1)], &[]);
        let refusal = none.check_present(&mut notes, (false, &[])).expect_err("no target exists");
        assert_eq!(refusal.message, "no process 9");
        let hidden = [HiddenProcess { pid: Some(Pid(9)), why: "it is hidden".into() }];
        let refusal =
            none.check_present(&mut notes, (false, &hidden)).expect_err("no target exists");
        assert_eq!(refusal.message, "no process 9: it is hidden");
        let noted = it.check_present(&mut notes, (false, &hidden));
        assert_eq!((noted, &*notes[1].text), (Ok(()), "no process 9: it is hidden"));
    }

    #[test]
    fn a_zombie_has_ended_once_and_a_first_thread_that_ended_has_not() {
        let mut it = watched(&[7]);
        let with = |state: u8, threads: u64| {
            let mut process = process(7, 1);
            process.row.set(ProcessField::State, u64::from(state));
            process.row.set(ProcessField::Threads, threads);
            process
        };
        assert_eq!(update(&mut it, vec![with(b'Z', 2)], &[]), [(7, false)]);
        assert_eq!(update(&mut it, vec![with(b'R', 1)], &[]), [(7, false)]);
        assert_eq!(update(&mut it, vec![with(b'Z', 1)], &[]), [(7, true)]);
        assert!(it.all_ended());
        // Neither the next reading nor its final record, after it was waited for, is another end.
        assert_eq!(update(&mut it, vec![with(b'Z', 1)], &[]), []);
        let mut last = process(7, 1);
        last.row.set(ProcessField::Ended, 1);
        assert_eq!(update(&mut it, vec![last], &[]), []);
    }

    #[test]
    fn an_unannounced_exit_record_is_waited_for_with_hooks() {
        let mut it = watched(&[7]);
        let _there = update(&mut it, vec![process(7, 1)], &[]);
        let mut at = |ms: u64, mut now: Vec<Process>| {
            let timeout = Ns(1_000);
            let _ended =
                it.update(&mut now, Absence { at: Ns(ms), record_timeout: timeout, dying: &[] });
            (now.iter().map(Process::ended).collect::<Vec<_>>(), it.all_ended())
        };
        assert_eq!(at(500, vec![]), (vec![], false));
        assert_eq!(at(1_499, vec![]), (vec![], false));
        assert_eq!(at(1_500, vec![]), (vec![true], true));
    }

    #[test]
    fn ranks_may_join_late() {
        struct Job(Vec<Identity>);
        impl Namespaces for Job {
            fn processes(&self, _: &RankTarget) -> Vec<Identity> {
                self.0.clone()
            }
        }
        let rank = RankTarget { namespace: "job".into(), rank: None };
        let mut it = WatchedTargets::new(Some(Targets { pids: Vec::new(), ranks: vec![rank] }));
        it.resolve(&[process(3, 1)], &Job(Vec::new()), &Visibility::All);
        assert!(!it.admits(&process(3, 1)) && !it.all_ended());
        it.resolve(&[process(3, 1)], &Job(vec![process(3, 1).id]), &Visibility::All);
        assert!(it.admits(&process(3, 1)));
    }
}
