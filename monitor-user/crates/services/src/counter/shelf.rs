//! The instruments of a node: whose they are, and what they are called.
//!
//! In: names, as strings or integers, and the session that uses them. Out: instruments. What is
//! shared belongs to nobody and stays until it is deleted; the rest goes with its session.

use super::instrument::{Instrument, Kind};
use monitor_event::occurrence::SHARED;
use monitor_event::outcome::Refusal;
use monitor_event::right::SessionId;
use monitor_model::id::Ns;
use monitor_omis::number::Int;
use monitor_omis::{Status, Text, Value};
use std::collections::BTreeMap;

/// Most instruments of a session, and most that are shared.
const MOST: usize = 1024;
/// Longest name.
const LONGEST: usize = 64;

/// What an instrument is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Number(Int),
    Name(Vec<u8>),
}

/// Where an instrument is; the owner is nobody if it is shared.
type Place = (Option<SessionId>, Label);

/// All instruments of a node.
#[derive(Debug, Default)]
pub struct Shelf {
    instruments: BTreeMap<Place, Instrument>,
    last: u64,
    /// Whether there are others than when this was asked last.
    is_changed: bool,
}

impl Shelf {
    /// Makes one.
    pub fn create(
        &mut self,
        session: SessionId,
        name: &Value,
        (kind, unit): (Kind, Text),
        now: Ns,
    ) -> Result<(), Refusal> {
        let place = place(session, name)?;
        if self.instruments.contains_key(&place) {
            let text = format!("there is an instrument {name}: delete it");
            return Err(Refusal::new(Status::EXISTS, text));
        }
        if self.of(place.0).count() >= MOST {
            let text = format!("{MOST} instruments are there; delete some first");
            return Err(Refusal::new(Status::RESOURCE, text));
        }
        self.last += 1;
        self.is_changed = true;
        let _none = self.instruments.insert(place, Instrument::new(self.last, kind, unit, now));
        Ok(())
    }

    /// The one of that name.
    pub fn find(&self, session: SessionId, name: &Value) -> Result<&Instrument, Refusal> {
        let place = place(session, name)?;
        self.instruments.get(&place).ok_or_else(|| unknown(name))
    }

    /// The one of that name, to be fed.
    pub fn find_mut(
        &mut self,
        session: SessionId,
        name: &Value,
    ) -> Result<&mut Instrument, Refusal> {
        let place = place(session, name)?;
        self.instruments.get_mut(&place).ok_or_else(|| unknown(name))
    }

    /// Takes it away.
    pub fn delete(&mut self, session: SessionId, name: &Value) -> Result<Instrument, Refusal> {
        let place = place(session, name)?;
        let gone = self.instruments.remove(&place).ok_or_else(|| unknown(name));
        self.is_changed |= gone.is_ok();
        gone
    }

    /// Whether instruments came or went since this was asked last.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// The names that a session can use: its own, then those that are shared.
    pub fn names(&self, session: SessionId) -> Vec<Value> {
        let own = self.of(Some(session)).chain(self.of(None));
        own.map(|label| label.value()).collect()
    }

    /// A session has gone, and its instruments with it.
    pub fn leave(&mut self, session: SessionId) -> Vec<Instrument> {
        let gone: Vec<Place> =
            self.of(Some(session)).map(|label| (Some(session), label.clone())).collect();
        gone.iter().filter_map(|place| self.instruments.remove(place)).collect()
    }

    fn of(&self, owner: Option<SessionId>) -> impl Iterator<Item = &Label> {
        let all = self.instruments.keys();
        all.filter(move |(own, _)| *own == owner).map(|(_, label)| label)
    }
}

impl Label {
    fn value(&self) -> Value {
        match self {
            Self::Number(number) => Value::Integer(*number),
            Self::Name(name) => Value::Text(Text::from(name.as_slice())),
        }
    }

    /// As events of the user's are shared from a number on, so are these; and names after a `/`.
    fn is_shared(&self) -> bool {
        match self {
            Self::Number(number) => number.get::<i64>().is_some_and(|number| number >= SHARED),
            Self::Name(name) => name.starts_with(b"/"),
        }
    }
}

fn place(session: SessionId, name: &Value) -> Result<Place, Refusal> {
    let label = match name {
        Value::Integer(number) => Label::Number(*number),
        Value::Text(text) if (1..=LONGEST).contains(&text.as_bytes().len()) => {
            Label::Name(text.as_bytes().to_vec())
        }
        other => {
            let text =
                format!("{other} names no instrument: wanted an integer, or 1 to {LONGEST} bytes");
            return Err(Refusal::new(Status::TYPE, text));
        }
    };
    let owner = (!label.is_shared()).then_some(session);
    Ok((owner, label))
}

fn unknown(name: &Value) -> Refusal {
    let text = format!("no instrument {name} is there: cnt_create it first");
    Refusal::new(Status::NO_SUCH_OBJECT, text)
}
