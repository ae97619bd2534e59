//! The registry of a node's instruments: their names and owners.
//!
//! In: names, as strings or integers, and the session that uses them. Out: instruments. Shared ones
//! have no owner and stay until they are deleted; the others go with their session.

use super::instrument::{Instrument, InstrumentKind};
use monitor_event::{Refusal, SessionId, node_event::FIRST_SHARED};
use monitor_model::Ns;
use monitor_omis::{Status, Text, Value, number::Int};
use std::collections::BTreeMap;

/// Maximum number of instruments of a session, and of shared ones.
const MAX_INSTRUMENTS: usize = 1024;
/// Maximum length of a name in bytes.
const MAX_NAME_LEN: usize = 64;

/// The name of an instrument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum InstrumentName {
    Number(Int),
    Name(Vec<u8>),
}

/// Owner and name of an instrument; a shared one has no owner.
type InstrumentKey = (Option<SessionId>, InstrumentName);

/// All instruments of a node.
#[derive(Debug, Default)]
pub struct InstrumentRegistry {
    instruments: BTreeMap<InstrumentKey, Instrument>,
    last: u64,
    /// Whether instruments were created or deleted since `take_change`.
    is_changed: bool,
}

impl InstrumentRegistry {
    /// Creates an instrument.
    ///
    /// # Errors
    /// If the name is taken, or the limit is reached.
    pub fn create(
        &mut self,
        session: SessionId,
        name: &Value,
        (kind, unit): (InstrumentKind, Text),
        now: Ns,
    ) -> Result<(), Refusal> {
        let place = key(session, name)?;
        if self.instruments.contains_key(&place) {
            let text = format!("instrument {name} exists: delete it first");
            return Err(Refusal::new(Status::EXISTS, text));
        }
        if self.names_of(place.0).count() >= MAX_INSTRUMENTS {
            let text =
                format!("there are {MAX_INSTRUMENTS} instruments, the maximum: delete some first");
            return Err(Refusal::new(Status::RESOURCE, text));
        }
        self.last += 1;
        self.is_changed = true;
        let _none = self.instruments.insert(place, Instrument::new(self.last, kind, unit, now));
        Ok(())
    }

    /// The instrument of this name.
    pub fn find(&self, session: SessionId, name: &Value) -> Result<&Instrument, Refusal> {
        let place = key(session, name)?;
        self.instruments.get(&place).ok_or_else(|| unknown(name))
    }

    /// The instrument of this name, to be updated.
    pub fn find_mut(
        &mut self,
        session: SessionId,
        name: &Value,
    ) -> Result<&mut Instrument, Refusal> {
        let place = key(session, name)?;
        self.instruments.get_mut(&place).ok_or_else(|| unknown(name))
    }

    /// Deletes an instrument.
    pub fn delete(&mut self, session: SessionId, name: &Value) -> Result<Instrument, Refusal> {
        let place = key(session, name)?;
        let gone = self.instruments.remove(&place).ok_or_else(|| unknown(name));
        self.is_changed |= gone.is_ok();
        gone
    }

    /// Whether instruments were created or deleted since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The names that a session can use: its own, then the shared ones.
    pub fn names(&self, session: SessionId) -> Vec<Value> {
        let own = self.names_of(Some(session)).chain(self.names_of(None));
        own.map(|label| label.value()).collect()
    }

    /// Removes the instruments of a session that has ended.
    pub fn remove_session(&mut self, session: SessionId) -> Vec<Instrument> {
        let gone: Vec<InstrumentKey> =
            self.names_of(Some(session)).map(|label| (Some(session), label.clone())).collect();
        gone.iter().filter_map(|place| self.instruments.remove(place)).collect()
    }

    fn names_of(&self, owner: Option<SessionId>) -> impl Iterator<Item = &InstrumentName> {
        let all = self.instruments.keys();
        all.filter(move |(own, _)| *own == owner).map(|(_, label)| label)
    }
}

impl InstrumentName {
    fn value(&self) -> Value {
        match self {
            Self::Number(number) => Value::Integer(*number),
            Self::Name(name) => Value::Text(Text::from(name.as_slice())),
        }
    }

    /// Integers are shared from the same number on as user events, strings if they begin with `/`.
    fn is_shared(&self) -> bool {
        match self {
            Self::Number(number) => {
                number.get::<i64>().is_some_and(|number| number >= FIRST_SHARED)
            }
            Self::Name(name) => name.starts_with(b"/"),
        }
    }
}

fn key(session: SessionId, name: &Value) -> Result<InstrumentKey, Refusal> {
    let label = match name {
        Value::Integer(number) => InstrumentName::Number(*number),
        Value::Text(text) if (1..=MAX_NAME_LEN).contains(&text.as_bytes().len()) => {
            InstrumentName::Name(text.as_bytes().to_vec())
        }
        other => {
            let text = format!(
                "name {other}: expected an integer, or a string of 1 to {MAX_NAME_LEN} bytes"
            );
            return Err(Refusal::new(Status::TYPE, text));
        }
    };
    let owner = (!label.is_shared()).then_some(session);
    Ok((owner, label))
}

fn unknown(name: &Value) -> Refusal {
    let text = format!("no instrument {name}: create it with cnt_create");
    Refusal::new(Status::NO_SUCH_OBJECT, text)
}
