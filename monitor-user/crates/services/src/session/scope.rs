//! Which processes a session observes: the ones that were attached, and who they make.
//!
//! In: identities, births, ends. Out: whether a process is one of them. Who joins by its cgroup or
//! its command was looked at by whoever knows these texts.

use monitor_model::id::{Identity, Ns, is_same};
use monitor_model::sample::Process;
use monitor_sampling::filter::Filter;
use std::collections::BTreeSet;

/// The scope of a session.
#[derive(Debug, Default)]
pub struct Scope {
    members: BTreeSet<Identity>,
    /// Whoever is like one of these joins as he comes to be.
    joins: Vec<Filter>,
    /// Those members of whom it was said that they came, before their birth may be heard of.
    late: BTreeSet<Identity>,
    /// Whether it is another scope than when this was asked last.
    is_changed: bool,
}

impl Scope {
    /// Observes a process.
    pub fn attach(&mut self, id: Identity) {
        self.is_changed |= self.members.insert(id);
    }

    /// Observes it no more; whether it was.
    pub fn detach(&mut self, id: Identity) -> bool {
        let was_there = self.members.remove(&id);
        let _was_late = self.late.remove(&id);
        self.is_changed |= was_there;
        was_there
    }

    /// Observes nobody, and nobody who comes.
    pub fn clear(&mut self) {
        self.members.clear();
        self.late.clear();
        self.joins.clear();
        self.is_changed = true;
    }

    /// Lets whoever is like this join from now on.
    pub fn join(&mut self, like: Filter) {
        self.joins.push(like);
        self.is_changed = true;
    }

    /// Whether it has changed since this was asked last.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Of a member it is said now that it came; perhaps its birth will be heard of as well.
    pub fn note_late(&mut self, id: Identity) {
        let _is_new = self.late.insert(id);
    }

    /// Whether that was said of it already.
    pub fn came_late(&self, id: Identity) -> bool {
        is_among(&self.late, id)
    }

    /// How many kinds of processes join as they come to be.
    pub fn n_joins(&self) -> usize {
        self.joins.len()
    }

    /// Whether this one joins.
    pub fn admits(&self, process: &Process) -> bool {
        self.joins.iter().any(|like| like.admits(process))
    }

    /// A process came to be: a child of a member is one too. Whether it is.
    pub fn born(&mut self, child: Identity, parent: Option<Identity>) -> bool {
        let inherits = parent.is_some_and(|parent| self.has(parent));
        let joins = inherits && self.members.insert(child);
        self.is_changed |= joins;
        joins
    }

    /// A process ended.
    pub fn ended(&mut self, id: Identity) {
        let before = self.members.len();
        self.members.retain(|it| !is_same(*it, id));
        self.late.retain(|it| !is_same(*it, id));
        self.is_changed |= self.members.len() != before;
    }

    /// Whether it is observed.
    pub fn has(&self, id: Identity) -> bool {
        is_among(&self.members, id)
    }

    /// Who is observed, ascending.
    pub fn members(&self) -> impl Iterator<Item = Identity> {
        self.members.iter().copied()
    }

    /// Whether births and ends matter to it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.joins.is_empty()
    }
}

/// Whether a process is one of these, whichever backend has named them.
fn is_among(these: &BTreeSet<Identity>, id: Identity) -> bool {
    let of_pid = |start| Identity { pid: id.pid, start: Ns(start) };
    these.contains(&id) || these.range(of_pid(0)..=of_pid(u64::MAX)).any(|it| is_same(*it, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::Pid;

    fn process(pid: u32, start: u64) -> Identity {
        Identity { pid: Pid(pid), start: Ns(start) }
    }

    #[test]
    fn children_of_members_are_members_and_others_are_not() {
        let mut scope = Scope::default();
        scope.attach(process(7, 100));
        assert!(scope.born(process(8, 200), Some(process(7, 100))));
        assert!(!scope.born(process(9, 200), Some(process(1, 0))));
        assert!(scope.has(process(8, 200)) && !scope.has(process(9, 200)));
    }

    #[test]
    fn a_reused_pid_is_somebody_else() {
        let mut scope = Scope::default();
        scope.attach(process(7, 100));
        assert!(!scope.has(process(7, 1_000_000_000)));
        scope.ended(process(7, 100));
        assert!(!scope.has(process(7, 100)));
    }
}
