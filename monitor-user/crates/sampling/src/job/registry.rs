//! Which processes are which ranks.
//!
//! In: memberships as they become known, and what somebody registers. Out: the processes of a
//! rank or of a whole namespace. At most [`MOST_RANKS`] are held; what found no room is counted.

use monitor_model::id::Identity;
use monitor_model::job::Rank;
use monitor_model::sample::Process;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Most processes that are held: sixteen on each of 4,096 processors.
pub const MOST_RANKS: usize = 65_536;

/// Which ranks of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// This one.
    Rank(u32),
    /// All of them.
    All,
}

/// There is no room for another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for another rank: {MOST_RANKS} processes are registered; remove some")]
pub struct Full;

/// How a process came to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    /// Its environment told.
    Seen,
    /// Somebody said so; what its environment tells does not change that.
    Registered,
}

/// The processes of ranks.
#[derive(Debug, Default)]
pub struct Registry {
    ranks: BTreeMap<Rank, BTreeSet<Identity>>,
    of: HashMap<Identity, (Rank, How)>,
    refused: u64,
    changes: u64,
}

impl Registry {
    /// Takes a process for a rank because somebody says so.
    pub fn register(&mut self, id: Identity, rank: Rank) -> Result<(), Full> {
        self.hold(id, rank, How::Registered)
    }

    /// Takes a process for what its environment told; one that tells nothing any more goes.
    pub fn see(&mut self, id: Identity, rank: Option<&Rank>) {
        if self.of.get(&id).is_some_and(|(_, how)| *how == How::Registered) {
            return;
        }
        match rank {
            // What found no room is counted there.
            Some(rank) => _ = self.hold(id, rank.clone(), How::Seen),
            None => self.remove(id),
        }
    }

    /// Forgets a process: it ended, or somebody said so.
    pub fn remove(&mut self, id: Identity) {
        let Some((rank, _)) = self.of.remove(&id) else { return };
        self.changes += 1;
        if let Entry::Occupied(mut ids) = self.ranks.entry(rank) {
            ids.get_mut().remove(&id);
            if ids.get().is_empty() {
                ids.remove();
            }
        }
    }

    /// Forgets the processes that are none of these, which are in the order of identities.
    pub fn keep_only(&mut self, living: &[Process]) {
        let there = |id: &Identity| {
            living.binary_search_by_key(id, |it| it.id).is_ok_and(|at| !living[at].ended())
        };
        let gone: Vec<_> = self.of.keys().filter(|id| !there(id)).copied().collect();
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// The ranks that have a process here.
    pub fn ranks(&self) -> impl Iterator<Item = &Rank> {
        self.ranks.keys()
    }

    /// Grows with each change.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// The processes of these ranks, by rank, each rank's in the order of their starts: the first
    /// is what the runtime launched, the others are what it started in turn.
    pub fn find(&self, namespace: &str, which: Which) -> Vec<(u32, Identity)> {
        let ranks = match which {
            Which::Rank(rank) => rank..=rank,
            Which::All => 0..=u32::MAX,
        };
        let mut found = Vec::new();
        for (rank, ids) in self.ranks.range(between(namespace, ranks)) {
            let mut ids: Vec<_> = ids.iter().copied().collect();
            ids.sort_by_key(|id| (id.start, id.pid));
            found.extend(ids.into_iter().map(|id| (rank.rank, id)));
        }
        found
    }

    /// The rank that a process is.
    pub fn rank(&self, id: Identity) -> Option<&Rank> {
        self.of.get(&id).map(|(rank, _)| rank)
    }

    /// The namespaces, and how many ranks of each have a process here.
    pub fn namespaces(&self) -> Vec<(Arc<str>, usize)> {
        let mut all: Vec<(Arc<str>, usize)> = Vec::new();
        for rank in self.ranks.keys() {
            match all.last_mut().filter(|(name, _)| *name == rank.namespace) {
                Some((_, count)) => *count += 1,
                None => all.push((Arc::clone(&rank.namespace), 1)),
            }
        }
        all
    }

    /// Processes that found no room.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    fn hold(&mut self, id: Identity, rank: Rank, how: How) -> Result<(), Full> {
        if self.of.get(&id).is_some_and(|held| *held == (rank.clone(), how)) {
            return Ok(());
        }
        self.remove(id);
        if self.of.len() >= MOST_RANKS {
            self.refused += 1;
            return Err(Full);
        }
        self.changes += 1;
        self.ranks.entry(rank.clone()).or_default().insert(id);
        self.of.insert(id, (rank, how));
        Ok(())
    }
}

fn between(namespace: &str, ranks: RangeInclusive<u32>) -> RangeInclusive<Rank> {
    let namespace: Arc<str> = namespace.into();
    let rank = |rank| Rank { namespace: Arc::clone(&namespace), rank };
    rank(*ranks.start())..=rank(*ranks.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::id::{Ns, Pid};

    fn id(pid: u32) -> Identity {
        Identity { pid: Pid(pid), start: Ns(u64::from(1000 - pid)) }
    }

    fn rank(namespace: &str, rank: u32) -> Rank {
        Rank { namespace: namespace.into(), rank }
    }

    #[track_caller]
    fn check(registry: &Registry, namespace: &str, which: Which, want: &[(u32, u32)]) {
        let got = registry.find(namespace, which);
        let got: Vec<_> = got.into_iter().map(|(rank, id)| (rank, id.pid.0)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn a_wildcard_finds_the_whole_namespace_and_no_other() {
        let mut registry = Registry::default();
        registry.see(id(1), Some(&rank("a", 1)));
        registry.see(id(2), Some(&rank("a", 0)));
        registry.see(id(3), Some(&rank("ab", 0)));
        check(&registry, "a", Which::All, &[(0, 2), (1, 1)]);
        check(&registry, "a", Which::Rank(1), &[(1, 1)]);
        check(&registry, "b", Which::All, &[]);
        assert_eq!(registry.namespaces(), [("a".into(), 2), ("ab".into(), 1)]);
    }

    #[test]
    fn of_a_rank_the_oldest_process_comes_first() {
        let mut registry = Registry::default();
        registry.see(id(5), Some(&rank("a", 0)));
        registry.see(id(9), Some(&rank("a", 0)));
        check(&registry, "a", Which::Rank(0), &[(0, 9), (0, 5)]);
    }

    #[test]
    fn an_execution_that_changes_the_environment_changes_the_rank() {
        let mut registry = Registry::default();
        registry.see(id(1), Some(&rank("a", 0)));
        registry.see(id(1), Some(&rank("b", 7)));
        check(&registry, "a", Which::All, &[]);
        check(&registry, "b", Which::All, &[(7, 1)]);
        registry.see(id(1), None);
        assert_eq!(registry.namespaces(), []);
    }

    #[test]
    fn what_was_registered_stays_until_it_is_removed() {
        let mut registry = Registry::default();
        registry.register(id(1), rank("a", 3)).expect("there is room");
        registry.see(id(1), None);
        registry.see(id(1), Some(&rank("b", 0)));
        assert_eq!(registry.rank(id(1)), Some(&rank("a", 3)));
        registry.remove(id(1));
        assert_eq!(registry.rank(id(1)), None);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let mut registry = Registry::default();
        for pid in 0..=MOST_RANKS {
            let pid = u32::try_from(pid).expect("a small number");
            registry.see(Identity { pid: Pid(pid), start: Ns(0) }, Some(&rank("a", pid)));
        }
        assert_eq!((registry.find("a", Which::All).len(), registry.refused()), (MOST_RANKS, 1));
    }
}
