//! The scope of a session: attached processes, their descendants, and patterns and jobs to join by.
//!
//! In: identities, creations, exits. Out: whether a process is attached. The caller reads the
//! command names and cgroups that patterns match, and the ranks of processes.

use super::awaited_job::{AwaitedJob, JobMember};
use monitor_model::id::{is_among, is_same};
use monitor_model::{Identity, Process};
use monitor_sampling::filter::Filter;
use std::collections::BTreeSet;

/// The scope of a session.
#[derive(Debug, Default)]
pub struct Scope {
    members: BTreeSet<Identity>,
    /// Patterns: a new process that matches one joins the scope.
    joins: Vec<Filter>,
    /// Jobs whose ranks join the scope when they start.
    jobs: Vec<AwaitedJob>,
    /// Members reported as new before their creation event may arrive.
    late: BTreeSet<Identity>,
    /// Whether the scope changed since `take_change`.
    is_changed: bool,
}

impl Scope {
    /// Adds a process.
    pub fn attach(&mut self, id: Identity) {
        self.is_changed |= self.members.insert(id);
    }

    /// Removes a process; whether it was attached.
    pub fn detach(&mut self, id: Identity) -> bool {
        let was_there = self.members.remove(&id);
        let _was_late = self.late.remove(&id);
        self.is_changed |= was_there;
        was_there
    }

    /// Removes all processes and all patterns.
    pub fn clear(&mut self) {
        self.members.clear();
        self.late.clear();
        self.joins.clear();
        self.jobs.clear();
        self.is_changed = true;
    }

    /// Adds a job: its ranks join from now on.
    pub fn await_job(&mut self, job: AwaitedJob) {
        if !self.jobs.contains(&job) {
            self.jobs.push(job);
            self.is_changed = true;
        }
    }

    /// Whether ranks of jobs join.
    pub fn awaits_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Whether a process is one of a job whose ranks join.
    pub fn awaits(&self, member: &JobMember<'_>) -> bool {
        self.jobs.iter().any(|job| job.has(member))
    }

    /// Adds a pattern: processes that match it join from now on.
    pub fn add_pattern(&mut self, like: Filter) {
        self.joins.push(like);
        self.is_changed = true;
    }

    /// Whether the scope changed since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Notes that a member was reported as new; its creation event may follow.
    pub fn note_reported(&mut self, id: Identity) {
        let _is_new = self.late.insert(id);
    }

    /// Whether a member was reported as new without a creation event.
    pub fn was_reported(&self, id: Identity) -> bool {
        is_among(&self.late, id)
    }

    /// Number of patterns and jobs by which processes join.
    pub fn n_patterns(&self) -> usize {
        self.joins.len() + self.jobs.len()
    }

    /// Whether a process matches a pattern.
    pub fn matches_pattern(&self, process: &Process) -> bool {
        self.joins.iter().any(|like| like.admits(process))
    }

    /// Handles the creation of a process: a child of a member joins. Returns whether it did.
    pub fn process_created(&mut self, child: Identity, parent: Option<Identity>) -> bool {
        let inherits = parent.is_some_and(|parent| self.has(parent));
        let joins = inherits && self.members.insert(child);
        self.is_changed |= joins;
        joins
    }

    /// Removes a process that has ended.
    pub fn process_ended(&mut self, id: Identity) {
        let before = self.members.len();
        self.members.retain(|it| !is_same(*it, id));
        self.late.retain(|it| !is_same(*it, id));
        self.is_changed |= self.members.len() != before;
    }

    /// Whether a process is attached.
    pub fn has(&self, id: Identity) -> bool {
        is_among(&self.members, id)
    }

    /// The attached processes, ascending.
    pub fn members(&self) -> impl Iterator<Item = Identity> {
        self.members.iter().copied()
    }

    /// Whether it has no process and no pattern.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.n_patterns() == 0
    }
}

/// Whether a process is one of these; backends may differ in the start time they report.
#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::{Ns, Pid};

    fn process(pid: u32, start: u64) -> Identity {
        Identity { pid: Pid(pid), start: Ns(start) }
    }

    #[test]
    fn children_of_members_are_members_and_others_are_not() {
        let mut scope = Scope::default();
        scope.attach(process(7, 100));
        assert!(scope.process_created(process(8, 200), Some(process(7, 100))));
        assert!(!scope.process_created(process(9, 200), Some(process(1, 0))));
        assert!(scope.has(process(8, 200)) && !scope.has(process(9, 200)));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let mut scope = Scope::default();
        scope.attach(process(7, 100));
        assert!(!scope.has(process(7, 1_000_000_000)));
        scope.process_ended(process(7, 100));
        assert!(!scope.has(process(7, 100)));
    }
}
