//! Services that a tool makes of others.
//!
//! `define_service("hold",["who"],"stop($who); print($who)")`, and then `hold([7])`.
//! In: definitions, and requests that call them. Out: requests of services that are built in.
//! An extension. A body is read once, and checked when it is defined: it sees its parameters and
//! what every event has, and it cannot call itself, not even by way of another.

mod expand;
#[cfg(test)]
mod tests;

use super::fault::Fault;
use super::name::Name;
use super::parse;
use super::request::{Basic, Stage};
use super::status::Status;
use super::value::{ALWAYS, Value, Var};
use std::collections::{BTreeMap, BTreeSet};

/// Most services that a session may define.
pub const MAX_DEFINITIONS: usize = 1024;
/// Most bytes that the bodies of a session may have together.
pub const MAX_BYTES: usize = 1 << 20;
/// Most definitions that call each other in a chain.
pub const MAX_CHAIN: usize = 16;

/// What `define_service` takes.
const WANTED: &str = r#"wanted a name, a list of names and a body: ("hold",["who"],"stop($who)")"#;

/// A service that a tool has defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    name: Name,
    params: Vec<Name>,
    body: Vec<Stage>,
    /// Length of the body as it was written.
    n_bytes: usize,
}

/// All that a session has defined.
#[derive(Clone, Debug, Default)]
pub struct Definitions(BTreeMap<Name, Definition>);

/// Why there is no such definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    /// What kind of mistake.
    pub status: Status,
    /// In one line.
    pub reason: String,
}

impl Definition {
    /// The definition that the parameters of `define_service` make: a name, the names of the
    /// parameters, and the body.
    pub fn from_values(values: &[Value]) -> Result<Self, Refused> {
        let [Value::Text(name), Value::List(params), Value::Text(body)] = values else {
            return Err(refused(Status::TYPE, WANTED));
        };
        let name = self::name(name.as_bytes())?;
        let params = self::params(params)?;
        let n_bytes = body.as_bytes().len();
        let body = parse::stages(body.as_bytes()).map_err(|fault| in_body(&name, &fault))?;
        let definition = Self { name, params, body, n_bytes };
        definition.check_variables()?;
        Ok(definition)
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The services that it calls.
    pub fn services(&self) -> impl Iterator<Item = &Name> {
        self.body.iter().flat_map(|stage| &stage.0).map(|basic| &basic.service)
    }

    fn check_variables(&self) -> Result<(), Refused> {
        let is_known = |var: &Var| match var {
            Var::Position(number) => *number == 0,
            Var::Named(name) => self.params.contains(name) || ALWAYS.contains(&name.as_str()),
        };
        let actions = self.body.iter().flat_map(|stage| &stage.0);
        let mut variables = actions.flat_map(Basic::variables).map(|(var, _)| var);
        variables.find(|var| !is_known(var)).map_or(Ok(()), |var| {
            let reason = format!("`{}` has no parameter `{var}`", self.name);
            Err(refused(Status::UNBOUND_VAR, reason))
        })
    }
}

impl Definitions {
    /// Takes a definition; one of the same name is replaced at once.
    pub fn define(&mut self, definition: Definition) -> Result<(), Refused> {
        self.check_room(&definition)?;
        let name = definition.name.clone();
        let before = self.0.insert(name.clone(), definition);
        let checked = self.check_calls(&name);
        if checked.is_err() {
            // As if nothing had been said.
            let _ = match before {
                Some(before) => self.0.insert(name, before),
                None => self.0.remove(&name),
            };
        }
        checked
    }

    /// Whether a service of that name is defined.
    pub fn has(&self, name: &Name) -> bool {
        self.0.contains_key(name)
    }

    fn check_room(&self, new: &Definition) -> Result<(), Refused> {
        let others = || self.0.values().filter(|other| other.name != new.name);
        if others().count() >= MAX_DEFINITIONS {
            let reason = format!("{MAX_DEFINITIONS} services are defined; no more are taken");
            return Err(refused(Status::RESOURCE, reason));
        }
        if others().map(|other| other.n_bytes).sum::<usize>() + new.n_bytes > MAX_BYTES {
            let reason = format!("the bodies would have more than {MAX_BYTES} bytes together");
            return Err(refused(Status::RESOURCE, reason));
        }
        Ok(())
    }

    /// Looks at the calls again after one definition is new: before, there was no circle and no
    /// chain too long.
    fn check_calls(&self, new: &Name) -> Result<(), Refused> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&Name> = self.called(new).collect();
        while let Some(name) = open.pop() {
            if name == new {
                return Err(refused(Status::CLASS, format!("`{new}` would call itself")));
            }
            if seen.insert(name) {
                open.extend(self.called(name));
            }
        }
        let mut chains = BTreeMap::new();
        let longest = self.0.keys().map(|name| self.chain(name, &mut chains)).max();
        if longest > Some(MAX_CHAIN) {
            let reason = format!("more than {MAX_CHAIN} definitions would call each other");
            return Err(refused(Status::LIMIT, reason));
        }
        Ok(())
    }

    /// How many definitions the longest chain of calls from this one has. There is no circle.
    fn chain<'d>(&'d self, name: &'d Name, known: &mut BTreeMap<&'d Name, usize>) -> usize {
        if let Some(chain) = known.get(name) {
            return *chain;
        }
        let longest = self.called(name).map(|name| self.chain(name, known)).max();
        let chain = 1 + longest.unwrap_or(0);
        let _ = known.insert(name, chain);
        chain
    }

    /// The definitions that one calls.
    fn called(&self, name: &Name) -> impl Iterator<Item = &Name> {
        let services = self.0.get(name).into_iter().flat_map(Definition::services);
        services.filter(|service| self.has(service))
    }
}

fn params(values: &[Value]) -> Result<Vec<Name>, Refused> {
    let mut params = Vec::new();
    for value in values {
        let Value::Text(text) = value else { return Err(refused(Status::TYPE, WANTED)) };
        let param = name(text.as_bytes())?;
        if params.contains(&param) {
            return Err(refused(Status::EXISTS, format!("two parameters `{param}`")));
        }
        params.push(param);
    }
    Ok(params)
}

fn name(text: &[u8]) -> Result<Name, Refused> {
    let name = std::str::from_utf8(text).ok().and_then(Name::new);
    name.ok_or_else(|| refused(Status::LEX, format!("`{}` is no name", text.escape_ascii())))
}

fn in_body(name: &Name, fault: &Fault) -> Refused {
    refused(fault.status, format!("in the body of `{name}`, byte {}: {fault}", fault.at))
}

fn refused(status: Status, reason: impl Into<String>) -> Refused {
    Refused { status, reason: reason.into() }
}
