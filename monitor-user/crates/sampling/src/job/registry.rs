//! The registry of ranks.
//!
//! In: memberships from environments, and explicit registrations. Out: the processes of a rank or
//! of a whole namespace. Holds at most [`MAX_RANKS`] processes; further ones are counted.

use monitor_model::{Identity, Process, Rank};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::{collections::btree_map::Entry, ops::RangeInclusive, sync::Arc};

/// Maximum number of processes: sixteen on each of 4,096 processors.
pub const MAX_RANKS: usize = 65_536;

/// Selects ranks of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankSelector {
    /// This one.
    Rank(u32),
    /// All of them.
    All,
}

/// The registry is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for another rank: {MAX_RANKS} processes are registered; remove some")]
pub struct RegistryFull;

/// The source of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RankSource {
    /// The environment of the process.
    Environment,
    /// An explicit registration; the environment does not change it.
    Registered,
}

/// The processes of ranks.
#[derive(Debug, Default)]
pub struct RankRegistry {
    ranks: BTreeMap<Rank, BTreeSet<Identity>>,
    entries: HashMap<Identity, (Rank, RankSource)>,
    refused: u64,
}

impl RankRegistry {
    /// Registers a process as a rank.
    ///
    /// # Errors
    /// If the registry is full.
    pub fn register(&mut self, id: Identity, rank: Rank) -> Result<(), RegistryFull> {
        self.insert(id, rank, RankSource::Registered)
    }

    /// Sets the rank from the environment of a process, or removes it. Registrations stay.
    pub fn update(&mut self, id: Identity, rank: Option<&Rank>) {
        if self.entries.get(&id).is_some_and(|(_, source)| *source == RankSource::Registered) {
            return;
        }
        match rank {
            // `insert` counts the processes that do not fit.
            Some(rank) => _ = self.insert(id, rank.clone(), RankSource::Environment),
            None => self.remove(id),
        }
    }

    /// Removes a process.
    pub fn remove(&mut self, id: Identity) {
        let Some((rank, _)) = self.entries.remove(&id) else { return };
        if let Entry::Occupied(mut ids) = self.ranks.entry(rank) {
            ids.get_mut().remove(&id);
            if ids.get().is_empty() {
                ids.remove();
            }
        }
    }

    /// Removes all processes but these, which are in the order of identities.
    pub fn keep_only(&mut self, living: &[Process]) {
        let is_living = |id: &Identity| {
            living.binary_search_by_key(id, |it| it.id).is_ok_and(|at| !living[at].ended())
        };
        let gone: Vec<_> = self.entries.keys().filter(|id| !is_living(id)).copied().collect();
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// The processes of these ranks, by rank and start time: the first process of a rank is the one
    /// that the runtime launched, the others are its descendants.
    pub fn find(&self, namespace: &str, which: RankSelector) -> Vec<(u32, Identity)> {
        let ranks = match which {
            RankSelector::Rank(rank) => rank..=rank,
            RankSelector::All => 0..=u32::MAX,
        };
        let mut found = Vec::new();
        for (rank, ids) in self.ranks.range(between(namespace, ranks)) {
            let mut ids: Vec<_> = ids.iter().copied().collect();
            ids.sort_by_key(|id| (id.start, id.pid));
            found.extend(ids.into_iter().map(|id| (rank.rank, id)));
        }
        found
    }

    /// The rank of a process.
    pub fn rank(&self, id: Identity) -> Option<&Rank> {
        self.entries.get(&id).map(|(rank, _)| rank)
    }

    /// Number of processes that did not fit.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    fn insert(&mut self, id: Identity, rank: Rank, source: RankSource) -> Result<(), RegistryFull> {
        if self.entries.get(&id).is_some_and(|entry| *entry == (rank.clone(), source)) {
            return Ok(());
        }
        self.remove(id);
        if self.entries.len() >= MAX_RANKS {
            self.refused += 1;
            return Err(RegistryFull);
        }
        self.ranks.entry(rank.clone()).or_default().insert(id);
        self.entries.insert(id, (rank, source));
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
    fn check(registry: &RankRegistry, namespace: &str, which: RankSelector, want: &[(u32, u32)]) {
        let got = registry.find(namespace, which);
        let got: Vec<_> = got.into_iter().map(|(rank, id)| (rank, id.pid.0)).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn a_wildcard_finds_the_whole_namespace_and_no_other() {
        let mut registry = RankRegistry::default();
        registry.update(id(1), Some(&rank("a", 1)));
        registry.update(id(2), Some(&rank("a", 0)));
        registry.update(id(3), Some(&rank("ab", 0)));
        check(&registry, "a", RankSelector::All, &[(0, 2), (1, 1)]);
        check(&registry, "a", RankSelector::Rank(1), &[(1, 1)]);
        check(&registry, "b", RankSelector::All, &[]);
    }

    #[test]
    fn the_oldest_process_of_a_rank_comes_first() {
        let mut registry = RankRegistry::default();
        registry.update(id(5), Some(&rank("a", 0)));
        registry.update(id(9), Some(&rank("a", 0)));
        check(&registry, "a", RankSelector::Rank(0), &[(0, 9), (0, 5)]);
    }

    #[test]
    fn a_new_environment_changes_the_rank() {
        let mut registry = RankRegistry::default();
        registry.update(id(1), Some(&rank("a", 0)));
        registry.update(id(1), Some(&rank("b", 7)));
        check(&registry, "a", RankSelector::All, &[]);
        check(&registry, "b", RankSelector::All, &[(7, 1)]);
        registry.update(id(1), None);
        check(&registry, "b", RankSelector::All, &[]);
    }

    #[test]
    fn a_registration_stays_until_it_is_removed() {
        let mut registry = RankRegistry::default();
        registry.register(id(1), rank("a", 3)).expect("there is room");
        registry.update(id(1), None);
        registry.update(id(1), Some(&rank("b", 0)));
        assert_eq!(registry.rank(id(1)), Some(&rank("a", 3)));
        registry.remove(id(1));
        assert_eq!(registry.rank(id(1)), None);
    }

    #[test]
    fn processes_over_the_limit_are_counted() {
        let mut registry = RankRegistry::default();
        for pid in 0..=MAX_RANKS {
            let pid = u32::try_from(pid).expect("a small number");
            registry.update(Identity { pid: Pid(pid), start: Ns(0) }, Some(&rank("a", pid)));
        }
        assert_eq!(
            (registry.find("a", RankSelector::All).len(), registry.refused()),
            (MAX_RANKS, 1)
        );
    }
}
