//! What the bus carries: entries of the order, and replies beside it; as data and as bytes.
//!
//! As bytes, an entry is a line of JSON and, after it, the payload as it is. A field that a later
//! version adds is ignored by this one; a body that it does not know is an error. So is a message
//! with a later `format`: one that means something else to a version that ignores its fields.

use monitor_model::Ns;
use monitor_protocol::cluster::MessageFormats;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeSet;
use thiserror::Error;

/// The format of messages that this version writes and reads; it reads earlier ones, too. One
/// without the key `format` has the first.
pub const FORMAT: u32 = 1;

/// The formats that this version reads, as a node says when it joins.
pub const FORMATS: MessageFormats = MessageFormats { oldest: 1, newest: FORMAT };

/// A position in the order, from 1; 0 is before all.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Seq(pub u64);

/// A time of the clock that stamps entries, ns; only differences have a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamTime(pub u64);

/// One stay of a node among the members; a node that comes again has a greater one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// Random number of a node's ledger: two daemons that use one name have different ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerId(pub u64);

/// Identifies an entry of one origin: the bus keeps one of two entries with the same id.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct EntryId {
    /// Random number of the daemon's start.
    pub start: u64,
    /// Number of the entry since then.
    pub number: u64,
}

/// A set of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Targets {
    /// All members.
    All,
    /// The nodes with these names.
    Names(BTreeSet<String>),
}

impl Targets {
    /// Whether a node is in the set.
    pub fn contains(&self, node: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.contains(node),
        }
    }
}

/// A request to a set of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The nodes.
    pub targets: Targets,
    /// The user for which it is executed.
    pub uid: u32,
    /// Execution begins within this time after the stamp of the entry, or never.
    pub begin_within: Ns,
    /// An entry with a later stamp is expired: it is a copy that was delayed.
    pub not_after: StreamTime,
    /// What is to be executed.
    #[serde(skip)]
    pub payload: Vec<u8>,
}

/// What an entry of the order says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryBody {
    /// A request.
    Command(Command),
    /// The origin is a member from here on, or remains one.
    Joined {
        /// Its stay.
        incarnation: Incarnation,
        /// Its ledger.
        ledger: LedgerId,
        /// Where the stay began, if this only repeats it.
        since: Option<Seq>,
        /// The formats that it reads.
        #[serde(default)]
        formats: MessageFormats,
        /// The nodes that may publish its readings with those of others, as a set; none if empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        aggregators: String,
    },
    /// The origin leaves soon, but remains a member until then: what has to be done on it
    /// before can be done.
    Draining {
        /// Its stay.
        incarnation: Incarnation,
        /// Its ledger.
        ledger: LedgerId,
        /// Where the stay began.
        since: Seq,
        /// The formats that it reads.
        #[serde(default)]
        formats: MessageFormats,
        /// The nodes that may publish its readings with those of others, as a set; none if empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        aggregators: String,
    },
    /// The origin leaves.
    Left {
        /// The stay that ends.
        incarnation: Incarnation,
    },
    /// A node is removed by a service node, because it is dead or does not answer.
    Removed {
        /// The node.
        node: String,
        /// The stay that ends.
        incarnation: Incarnation,
    },
}

/// An entry of the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusEntry {
    /// The node that sent it, as the bus vouches for it.
    pub origin: String,
    /// Its id.
    pub id: EntryId,
    /// What it says.
    pub body: EntryBody,
}

/// An entry at its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequencedEntry {
    /// The position.
    pub seq: Seq,
    /// When it got the position.
    pub stamp: StreamTime,
    /// The entry.
    pub entry: BusEntry,
}

/// What a member says of one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyStatus {
    /// It executed the command, once; the result is in the reply.
    Executed,
    /// The time to begin was over: it has not executed it, and never will.
    Expired,
    /// It has not executed it, and never will; why.
    Refused(String),
}

/// The reply of a member to a command, beside the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandReply {
    /// The command.
    pub id: EntryId,
    /// The position of the command.
    pub seq: Seq,
    /// What became of it.
    pub status: ReplyStatus,
    /// The result, if it was executed.
    #[serde(skip)]
    pub result: Vec<u8>,
}

/// Bytes that are no entry or reply.
#[derive(Debug, Error)]
pub enum MalformedMessage {
    /// No end of the line with the header.
    #[error("no header line")]
    NoHeader,
    /// The header is not one of this version.
    #[error("header: {0}")]
    Header(#[from] serde_json::Error),
    /// A later version has written it.
    #[error("it has format {0}, of a later version; this one reads up to {FORMAT}")]
    LaterFormat(u32),
}

/// The header of an entry.
#[derive(Serialize, Deserialize)]
struct EntryHeader {
    origin: String,
    id: EntryId,
    body: EntryBody,
}

impl BusEntry {
    /// The entry as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header =
            EntryHeader { origin: self.origin.clone(), id: self.id, body: self.body.clone() };
        let payload = match &self.body {
            EntryBody::Command(command) => command.payload.as_slice(),
            _ => &[],
        };
        join(&header, payload)
    }

    /// The entry of bytes; `origin` is what they say, and the bus has to confirm it.
    ///
    /// # Errors
    /// The bytes are no entry of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let (EntryHeader { origin, id, mut body }, payload) = split(bytes)?;
        if let EntryBody::Command(command) = &mut body {
            command.payload = payload;
        }
        Ok(Self { origin, id, body })
    }
}

impl CommandReply {
    /// The reply as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        join(self, &self.result)
    }

    /// The reply of bytes.
    ///
    /// # Errors
    /// The bytes are no reply of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let (reply, result) = split::<Self>(bytes)?;
        Ok(Self { result, ..reply })
    }
}

/// Bytes of a header and what follows it.
pub fn join(header: &impl Serialize, payload: &[u8]) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(header).expect("plain data has a form in JSON");
    bytes.push(b'\n');
    bytes.extend(payload);
    bytes
}

/// The header of bytes, and what follows it.
///
/// # Errors
/// There is no header of this kind.
pub fn split<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, Vec<u8>), MalformedMessage> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(MalformedMessage::NoHeader)?;
    Ok((read_json(&bytes[..end])?, bytes[end + 1..].to_vec()))
}

/// A message as JSON behind the bytes that say of which kind it is.
pub fn marked_json(mark: &[u8], message: &impl Serialize) -> Vec<u8> {
    let mut bytes = mark.to_vec();
    bytes.extend(serde_json::to_vec(message).expect("plain data has a form in JSON"));
    bytes
}

/// The format of a message.
#[derive(Deserialize)]
struct FormatKey {
    #[serde(default)]
    format: Option<u32>,
}

/// A message as JSON, unless a later version has written it.
///
/// # Errors
/// It has a later format, or is none of this kind.
pub fn read_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, MalformedMessage> {
    let format = serde_json::from_slice::<FormatKey>(json).ok().and_then(|key| key.format);
    match format {
        Some(format) if format > FORMAT => Err(MalformedMessage::LaterFormat(format)),
        _ => Ok(serde_json::from_slice(json)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(payload: Vec<u8>) -> BusEntry {
        let targets = Targets::Names(BTreeSet::from(["n1".into(), "n\n2".into()]));
        let (begin_within, not_after) = (Ns(5), StreamTime(u64::MAX));
        let command = Command { targets, uid: 7, begin_within, not_after, payload };
        let id = EntryId { start: u64::MAX, number: 2 };
        BusEntry { origin: "n\"1".into(), id, body: EntryBody::Command(command) }
    }

    proptest! {
        #[test]
        fn an_entry_survives_its_bytes(payload: Vec<u8>) {
            let entry = entry(payload);
            prop_assert_eq!(BusEntry::from_bytes(&entry.to_bytes()).unwrap(), entry);
        }

        #[test]
        fn a_reply_survives_its_bytes(result: Vec<u8>, why: String) {
            let (id, status) = (EntryId::default(), ReplyStatus::Refused(why));
            let reply = CommandReply { id, seq: Seq(9), status, result };
            prop_assert_eq!(CommandReply::from_bytes(&reply.to_bytes()).unwrap(), reply);
        }

        #[test]
        fn other_bytes_are_an_error(bytes: Vec<u8>) {
            prop_assert!(BusEntry::from_bytes(&bytes).is_err());
            prop_assert!(CommandReply::from_bytes(&bytes).is_err());
        }
    }

    #[test]
    fn a_field_of_a_later_version_is_ignored_and_an_unknown_body_is_an_error() {
        let known = concat!(
            r#"{"origin":"a","id":{"start":1,"number":2,"x":3},"#,
            r#""body":{"left":{"incarnation":4}},"y":5}"#,
            "\n"
        );
        let body = EntryBody::Left { incarnation: Incarnation(4) };
        assert_eq!(BusEntry::from_bytes(known.as_bytes()).unwrap().body, body);
        let unknown = b"{\"origin\":\"a\",\"id\":{\"start\":1,\"number\":2},\"body\":{\"z\":{}}}\n";
        assert!(BusEntry::from_bytes(unknown).is_err());
    }
}
