//! The registry of all services, by name: built-in ones and external ones.
//!
//! In: specifications. Out: the specification of a name, or the most similar name. An extension
//! owns a prefix; its names begin with it, and no name is registered twice.

use super::{
    SERVICE_GROUPS, ServiceSpec, engine_api::ExternalService, external_service::EXTERNAL_SERVICE,
};
use monitor_event::{Refusal, SessionId};
use monitor_model::name;
use monitor_omis::Status;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All services.
#[derive(Clone, Debug)]
pub struct Registry {
    rows: HashMap<&'static str, &'static ServiceSpec>,
    prefixes: BTreeSet<&'static str>,
    /// External services, by prefix.
    external: BTreeMap<String, ServiceProvider>,
}

/// A tool that provides external services.
#[derive(Clone, Debug)]
struct ServiceProvider {
    session: SessionId,
    uid: u32,
    services: Vec<ExternalService>,
}

impl Registry {
    /// The built-in services.
    pub fn built_in() -> Self {
        let mut it =
            Self { rows: HashMap::new(), prefixes: BTreeSet::new(), external: BTreeMap::new() };
        for row in all() {
            it.insert(row).expect(
                "built-in names are unique and have their prefix; a test registers all of them",
            );
        }
        it
    }

    /// The service of this name.
    pub fn spec(&self, name: &str) -> Option<&'static ServiceSpec> {
        self.rows.get(name).copied().or_else(|| self.provider(name).map(|_| &EXTERNAL_SERVICE))
    }

    /// The session and the user that provide the external service of this name.
    pub fn provider(&self, name: &str) -> Option<(SessionId, u32)> {
        let mut providers = self.external.values();
        let provider =
            providers.find(|it| it.services.iter().any(|service| service.name == name))?;
        Some((provider.session, provider.uid))
    }

    /// Registers the external services of a tool.
    ///
    /// # Errors
    /// `EXISTS` if the prefix overlaps with that of other services.
    pub fn register_external(
        &mut self,
        (session, uid): (SessionId, u32),
        prefix: String,
        services: Vec<ExternalService>,
    ) -> Result<(), Refusal> {
        let overlaps = |other: &str| other.starts_with(&prefix) || prefix.starts_with(other);
        let is_taken = self.external.keys().any(|it| overlaps(it))
            || self.prefixes().any(overlaps)
            || self.rows.keys().any(|name| name.starts_with(&prefix));
        if is_taken {
            let text = format!("prefix {prefix} is taken by other services");
            return Err(Refusal::new(Status::EXISTS, text));
        }
        let _none = self.external.insert(prefix, ServiceProvider { session, uid, services });
        Ok(())
    }

    /// Removes the external services of a session that has ended.
    pub fn remove_external(&mut self, session: SessionId) {
        self.external.retain(|_, it| it.session != session);
    }

    /// The external services that this user can call, by prefix.
    pub fn external_services(&self, uid: u32) -> Vec<ExternalService> {
        let is_for = |it: &&ServiceProvider| it.uid == 0 || uid == 0 || it.uid == uid;
        self.external.values().filter(is_for).flat_map(|it| it.services.clone()).collect()
    }

    /// Why a tool cannot define a service of this name, if it cannot: what it means to other tools
    /// would change, or the prefix is that of an extension (OMIS 1.0, section 6.2).
    pub fn owner(&self, name: &str) -> Option<String> {
        if self.spec(name).is_some() {
            return Some("is a service of the monitor or of an extension".to_owned());
        }
        let prefix = self.prefixes().find(|prefix| name.starts_with(prefix))?;
        Some(format!("begins with the prefix `{prefix}` of an extension"))
    }

    /// The name most similar to this one.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        // Sorted, so that the same one of two equally similar names is returned each time.
        let names: BTreeSet<&'static str> = self.rows.keys().copied().collect();
        name::nearest(names.into_iter(), name)
    }

    /// The prefixes of the available extensions.
    pub fn prefixes(&self) -> impl Iterator<Item = &str> {
        self.prefixes.iter().copied().chain(self.external.keys().map(String::as_str))
    }

    fn insert(&mut self, row: &'static ServiceSpec) -> Result<(), Refusal> {
        for name in row.names() {
            if !name.starts_with(row.prefix) {
                let text = format!("`{name}` does not begin with its prefix `{}`", row.prefix);
                return Err(Refusal::new(Status::RANGE, text));
            }
            if self.rows.insert(name, row).is_some() {
                return Err(Refusal::new(Status::EXISTS, format!("`{name}` is registered twice")));
            }
        }
        if !row.prefix.is_empty() {
            self.prefixes.insert(row.prefix);
        }
        Ok(())
    }
}

/// All built-in services, in the order of the manual.
pub fn all() -> impl Iterator<Item = &'static ServiceSpec> {
    SERVICE_GROUPS.iter().flat_map(|(_, lists)| *lists).flat_map(|rows| *rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_omis::Name;

    #[test]
    fn every_service_is_found_by_each_of_its_names() {
        let registry = Registry::built_in();
        for row in all() {
            for name in row.names() {
                assert_eq!(registry.spec(name).map(|it| it.name), Some(row.name));
                assert!(Name::new(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn every_service_has_a_manual_and_an_example() {
        for row in all() {
            assert!(row.help.ends_with('.') && !row.examples.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn the_most_similar_name_is_suggested() {
        assert_eq!(Registry::built_in().nearest("proces_info"), Some("process_info"));
    }
}
