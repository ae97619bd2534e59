//! Services that a client defines from other services; an extension.
//!
//! `define_service("hold",["tids"],"stop($tids); print($tids)")` makes `hold([7])` a request.
//! In: definitions, and requests that call them. Out: requests of built-in services.
//! A body is parsed and checked once, when it is defined: it may use its parameters and the
//! variables of every event, and it cannot call itself, directly or through other definitions.

mod expand;
#[cfg(test)]
mod tests;

use super::{Basic, Fault, Name, Stage, Status, Value, Var, parse, value::COMMON_VARIABLES};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of definitions of a session.
pub const MAX_DEFINITIONS: usize = 1024;
/// Maximum total bytes of the bodies of a session.
pub const MAX_BYTES: usize = 1 << 20;
/// Maximum length of a chain of definitions that call each other.
pub const MAX_CHAIN: usize = 16;

/// The parameters of `define_service`, for its error message.
const USAGE: &str =
    r#"expected a name, a list of names and a body: ("hold",["tids"],"stop($tids)")"#;

/// A service that a client has defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    name: Name,
    params: Vec<Name>,
    body: Vec<Stage>,
    /// Length of the text of the body.
    n_bytes: usize,
}

/// All definitions of a session.
#[derive(Clone, Debug, Default)]
pub struct Definitions(BTreeMap<Name, Definition>);

/// Why a definition was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DefineError {
    /// The kind of error.
    pub status: Status,
    /// The message, in one line.
    pub reason: String,
}

impl Definition {
    /// Builds a definition from the parameters of `define_service`: a name, the names of the
    /// parameters, and the body.
    ///
    /// # Errors
    ///
    /// Fails if a parameter has another type, a name is invalid, the body does not parse, or the
    /// body uses an unknown variable.
    pub fn from_values(values: &[Value]) -> Result<Self, DefineError> {
        let [Value::Text(name), Value::List(params), Value::Text(body)] = values else {
            return Err(refused(Status::TYPE, USAGE));
        };
        let name = self::name(name.as_bytes())?;
        let params = self::params(params)?;
        let n_bytes = body.as_bytes().len();
        let body = parse::stages(body.as_bytes()).map_err(|fault| in_body(&name, &fault))?;
        let definition = Self { name, params, body, n_bytes };
        definition.check_variables()?;
        Ok(definition)
    }

    /// Returns the name of the service.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the services that the body calls.
    pub fn services(&self) -> impl Iterator<Item = &Name> {
        self.body.iter().flat_map(|stage| &stage.0).map(|basic| &basic.service)
    }

    fn check_variables(&self) -> Result<(), DefineError> {
        let is_known = |var: &Var| match var {
            Var::Position(number) => *number == 0,
            Var::Named(name) => {
                self.params.contains(name) || COMMON_VARIABLES.contains(&name.as_str())
            }
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
    /// Adds a definition, or replaces the one of the same name.
    ///
    /// # Errors
    ///
    /// Fails, and changes nothing, if a limit would be exceeded or a definition would call itself.
    pub fn define(&mut self, definition: Definition) -> Result<(), DefineError> {
        self.check_limits(&definition)?;
        let name = definition.name.clone();
        let before = self.0.insert(name.clone(), definition);
        let checked = self.check_calls(&name);
        if checked.is_err() {
            // Restore the previous state.
            let _ = match before {
                Some(before) => self.0.insert(name, before),
                None => self.0.remove(&name),
            };
        }
        checked
    }

    /// Returns whether a service of that name is defined.
    pub fn has(&self, name: &Name) -> bool {
        self.0.contains_key(name)
    }

    fn check_limits(&self, new: &Definition) -> Result<(), DefineError> {
        let others = || self.0.values().filter(|other| other.name != new.name);
        if others().count() >= MAX_DEFINITIONS {
            let reason = format!("the limit of {MAX_DEFINITIONS} defined services is reached");
            return Err(refused(Status::RESOURCE, reason));
        }
        if others().map(|other| other.n_bytes).sum::<usize>() + new.n_bytes > MAX_BYTES {
            let reason = format!("the bodies would have more than {MAX_BYTES} bytes together");
            return Err(refused(Status::RESOURCE, reason));
        }
        Ok(())
    }

    /// Checks the calls after adding a definition: no cycle, and no chain that is too long.
    /// Before, neither existed.
    fn check_calls(&self, new: &Name) -> Result<(), DefineError> {
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

    /// Returns the length of the longest chain of calls from a definition. There is no cycle.
    fn chain<'d>(&'d self, name: &'d Name, known: &mut BTreeMap<&'d Name, usize>) -> usize {
        if let Some(chain) = known.get(name) {
            return *chain;
        }
        let longest = self.called(name).map(|name| self.chain(name, known)).max();
        let chain = 1 + longest.unwrap_or(0);
        let _ = known.insert(name, chain);
        chain
    }

    /// Returns the definitions that a definition calls.
    fn called(&self, name: &Name) -> impl Iterator<Item = &Name> {
        let services = self.0.get(name).into_iter().flat_map(Definition::services);
        services.filter(|service| self.has(service))
    }
}

fn params(values: &[Value]) -> Result<Vec<Name>, DefineError> {
    let mut params = Vec::new();
    for value in values {
        let Value::Text(text) = value else { return Err(refused(Status::TYPE, USAGE)) };
        let param = name(text.as_bytes())?;
        if params.contains(&param) {
            return Err(refused(Status::EXISTS, format!("two parameters `{param}`")));
        }
        params.push(param);
    }
    Ok(params)
}

fn name(text: &[u8]) -> Result<Name, DefineError> {
    let name = std::str::from_utf8(text).ok().and_then(Name::new);
    name.ok_or_else(|| refused(Status::LEX, format!("`{}` is not a name", text.escape_ascii())))
}

fn in_body(name: &Name, fault: &Fault) -> DefineError {
    refused(fault.status, format!("in the body of `{name}`, byte {}: {fault}", fault.at))
}

fn refused(status: Status, reason: impl Into<String>) -> DefineError {
    DefineError { status, reason: reason.into() }
}
