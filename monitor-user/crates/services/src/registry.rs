//! The list of all services, by name: the rows that are built in, and those of extensions.
//!
//! In: rows. Out: the row of a name, or the name that was probably meant. An extension owns a
//! prefix; its rows begin with it, and no name is there twice.

use super::GROUPS;
use super::guest::{BROUGHT, Brought};
use super::row::Row;
use monitor_event::outcome::Refusal;
use monitor_event::right::SessionId;
use monitor_model::name;
use monitor_omis::Status;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Every service that there is.
#[derive(Clone, Debug)]
pub struct Registry {
    rows: HashMap<&'static str, &'static Row>,
    prefixes: BTreeSet<&'static str>,
    /// What tools bring, by prefix.
    brought: BTreeMap<String, Guest>,
}

/// A tool that brings services.
#[derive(Clone, Debug)]
struct Guest {
    session: SessionId,
    uid: u32,
    services: Vec<Brought>,
}

impl Registry {
    /// Those that are built in.
    pub fn built_in() -> Self {
        let mut it =
            Self { rows: HashMap::new(), prefixes: BTreeSet::new(), brought: BTreeMap::new() };
        for row in all() {
            it.insert(row).expect("a test registers every row that is built in");
        }
        it
    }

    /// The service of that name.
    pub fn row(&self, name: &str) -> Option<&'static Row> {
        self.rows.get(name).copied().or_else(|| self.owner(name).map(|_| &BROUGHT))
    }

    /// Who brings the service of that name, and of which user.
    pub fn owner(&self, name: &str) -> Option<(SessionId, u32)> {
        let mut guests = self.brought.values();
        let guest = guests.find(|it| it.services.iter().any(|service| service.name == name))?;
        Some((guest.session, guest.uid))
    }

    /// Takes in what a tool of a user brings.
    pub fn bring(
        &mut self,
        (session, uid): (SessionId, u32),
        prefix: String,
        services: Vec<Brought>,
    ) -> Result<(), Refusal> {
        let overlaps = |other: &str| other.starts_with(&prefix) || prefix.starts_with(other);
        let is_taken = self.brought.keys().any(|it| overlaps(it))
            || self.prefixes().any(overlaps)
            || self.rows.keys().any(|name| name.starts_with(&prefix));
        if is_taken {
            let text = format!("names that begin with {prefix} belong to somebody already");
            return Err(Refusal::new(Status::EXISTS, text));
        }
        let _none = self.brought.insert(prefix, Guest { session, uid, services });
        Ok(())
    }

    /// A tool has gone, and what it brought with it.
    pub fn withdraw(&mut self, session: SessionId) {
        self.brought.retain(|_, it| it.session != session);
    }

    /// What is brought for this user, by name of the prefix.
    pub fn brought(&self, uid: u32) -> Vec<Brought> {
        let is_for = |it: &&Guest| it.uid == 0 || uid == 0 || it.uid == uid;
        self.brought.values().filter(is_for).flat_map(|it| it.services.clone()).collect()
    }

    /// The name most like this one.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        // In an order, so that of two that are as near the same is named each time.
        let names: BTreeSet<&'static str> = self.rows.keys().copied().collect();
        name::nearest(names.into_iter(), name)
    }

    /// The prefixes of extensions that are there.
    pub fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.prefixes.iter().copied().chain(self.brought.keys().map(String::as_str))
    }

    fn insert(&mut self, row: &'static Row) -> Result<(), Refusal> {
        for name in row.names() {
            if !name.starts_with(row.prefix) {
                let text = format!("`{name}` does not begin with its prefix `{}`", row.prefix);
                return Err(Refusal::new(Status::RANGE, text));
            }
            if self.rows.insert(name, row).is_some() {
                return Err(Refusal::new(Status::EXISTS, format!("`{name}` is there twice")));
            }
        }
        if !row.prefix.is_empty() {
            self.prefixes.insert(row.prefix);
        }
        Ok(())
    }
}

/// Every row that is built in, in the order of the manual.
pub fn all() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|(_, lists)| *lists).flat_map(|rows| *rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::Name;

    #[test]
    fn every_row_is_found_by_each_of_its_names() {
        let registry = Registry::built_in();
        for row in all() {
            for name in row.names() {
                assert_eq!(registry.row(name).map(|it| it.name), Some(row.name));
                assert!(Name::new(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn every_row_has_a_manual_and_an_example() {
        for row in all() {
            assert!(row.help.ends_with('.') && !row.examples.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn what_was_meant_is_found() {
        assert_eq!(Registry::built_in().nearest("proces_info"), Some("process_info"));
    }
}
