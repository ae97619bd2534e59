//! One child of an aggregator: its address, and what is known of it.

use super::super::nodes::{DownReason, NodeAddress, check_names};
use super::record::RecordFault;
use crate::lock::lock;
use bytes::Bytes;
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildKind {
    /// A service: its `mon/` is read.
    Node,
    /// An aggregator: its `agg/` is read.
    Aggregator,
}

impl ChildKind {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Aggregator => "agg",
        }
    }

    /// The directory that is read.
    pub const fn directory(self) -> &'static str {
        match self {
            Self::Node => "mon",
            Self::Aggregator => "agg",
        }
    }
}

/// Where a child is, and as what it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildAddress {
    /// Its name and address.
    pub at: NodeAddress,
    /// What it is; none to read it as an aggregator if it is one.
    pub kind: Option<ChildKind>,
}

impl ChildAddress {
    /// Parses `NAME=ADDRESS`, with ` node` or ` agg` behind it if it is not to be found out.
    ///
    /// # Errors
    ///
    /// Says what was expected.
    pub fn parse(written: &str) -> Result<Self, String> {
        let kinds = [ChildKind::Node, ChildKind::Aggregator];
        let ending = |it: &ChildKind| {
            let at = written.trim_end().strip_suffix(it.word())?;
            at.ends_with(' ').then_some((at, *it))
        };
        let (at, kind) = match kinds.iter().find_map(ending) {
            Some((at, kind)) => (at, Some(kind)),
            None => (written, None),
        };
        Ok(Self { at: NodeAddress::parse(at)?, kind })
    }
}

impl Display for ChildAddress {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        self.at.fmt(out)?;
        self.kind.map_or(Ok(()), |it| write!(out, " {}", it.word()))
    }
}

/// Parses a list, in which each name is there once.
///
/// # Errors
///
/// Says what was expected.
pub fn parse_children<'a>(
    written: impl Iterator<Item = &'a str>,
) -> Result<Vec<ChildAddress>, String> {
    let all: Vec<ChildAddress> = written.map(ChildAddress::parse).collect::<Result<_, _>>()?;
    check_names(all.iter().map(|it| it.at.name.as_str()))?;
    Ok(all)
}

/// Why the record of a child is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It does not answer.
    Down(DownReason),
    /// It answers with what may not be passed on.
    Refused(RecordFault),
    /// It has not answered in time: of `fresh` alone.
    Timeout,
}

impl Missing {
    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Down(reason) => reason.name(),
            Self::Refused(fault) => fault.word(),
            Self::Timeout => "timeout",
        }
    }
}

/// Room for the bytes of a record among those of all children, until it is dropped.
#[derive(Debug)]
pub struct RecordRoom {
    bytes: usize,
    taken: Arc<AtomicUsize>,
}

impl RecordRoom {
    /// Takes room; none if the bytes of all records would be more than `most`.
    pub fn take(taken: &Arc<AtomicUsize>, bytes: usize, most: usize) -> Option<Arc<Self>> {
        let more = |it: usize| it.checked_add(bytes).filter(|it| *it <= most);
        let relaxed = Ordering::Relaxed;
        taken.fetch_update(relaxed, relaxed, more).ok()?;
        Some(Arc::new(Self { bytes, taken: Arc::clone(taken) }))
    }
}

impl Drop for RecordRoom {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A record, and when it arrived.
#[derive(Clone, Debug)]
pub struct ChildRecord {
    /// As the child has written it, without its line break.
    pub text: Bytes,
    /// When.
    pub at: Instant,
    /// The number of the round in which it was read.
    pub round: u64,
    /// What it takes of the room for all records.
    pub room: Arc<RecordRoom>,
}

/// What is known of a child.
#[derive(Clone, Debug)]
pub struct ChildState {
    /// What it is, as far as that is known.
    pub kind: Option<ChildKind>,
    /// Its last record, or why there is none.
    pub record: Result<ChildRecord, Missing>,
    /// The number of the last round that it has answered, or could not.
    pub round: u64,
    /// How long its last answer took, in microseconds.
    pub lag_us: Option<u64>,
    /// The text of its `desc`.
    pub description: Bytes,
    /// Records that it has lost, or that readers were too slow for.
    pub lost: u64,
    /// What has become of the lines that pass down: `applied`, `pending`, or a refusal.
    pub passed: String,
}

/// A child.
pub struct Child {
    /// Where it is.
    pub address: ChildAddress,
    /// Its name.
    pub name: Arc<str>,
    state: Mutex<ChildState>,
}

impl Child {
    /// One that has not answered yet.
    pub fn new(address: ChildAddress) -> Self {
        let state = ChildState {
            kind: address.kind,
            record: Err(Missing::Down(DownReason::Initializing)),
            round: 0,
            lag_us: None,
            description: Bytes::new(),
            lost: 0,
            passed: "pending".to_owned(),
        };
        let name = address.at.name.as_str().into();
        Self { address, name, state: Mutex::new(state) }
    }

    /// What is known of it.
    pub fn state(&self) -> ChildState {
        lock(&self.state).clone()
    }

    /// Changes what is known.
    pub fn set(&self, change: impl FnOnce(&mut ChildState)) {
        change(&mut lock(&self.state));
    }

    /// Whether it has answered the round with this number, or could not.
    pub fn has_answered(&self, round: u64) -> bool {
        let state = lock(&self.state);
        let is_down =
            matches!(state.record, Err(Missing::Down(why)) if why != DownReason::Initializing);
        state.round >= round || is_down
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_with_the_record() {
        let taken = Arc::default();
        let first = RecordRoom::take(&taken, 6, 10).expect("room");
        assert!(RecordRoom::take(&taken, 5, 10).is_none());
        let _second = RecordRoom::take(&taken, 4, 10).expect("room");
        drop(first);
        assert_eq!(taken.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn an_address_may_say_what_the_child_is() {
        let parsed = |text: &str| ChildAddress::parse(text).expect("an address");
        assert_eq!(parsed("n1=/run/n1.9p").kind, None);
        assert_eq!(parsed("n1=/run/agg").kind, None);
        let it = parsed(" r1=/run/r1.9p agg ");
        assert_eq!((it.at.name.as_str(), it.kind), ("r1", Some(ChildKind::Aggregator)));
        assert_eq!(it.to_string(), "r1=/run/r1.9p agg");
        assert_eq!(parsed("r1=/run/r1.9p node").to_string(), "r1=/run/r1.9p node");
        assert!(ChildAddress::parse("agg").is_err() && ChildAddress::parse("a=b agg").is_err());
    }
}
