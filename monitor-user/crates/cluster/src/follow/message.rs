//! The messages of the two ends, as data and as bytes; and the command that begins a session.
//!
//! A command of this kind begins with the end of a line, which no line of a user has: so a user
//! cannot write one.

use crate::bus::entry::{MalformedMessage, join, marked_json, read_json, split};
use serde::{Deserialize, Serialize};

/// What the command that begins a session begins with.
const MARK: &[u8] = b"\n";

/// What is followed, for one command: chosen by the node that asked.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct FollowId {
    /// Random number of the start of its daemon.
    pub start: u64,
    /// Number of the command since then.
    pub number: u64,
}

/// A message from one end to the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowMessage {
    /// Lines of a session.
    Lines {
        /// The session.
        id: FollowId,
        /// The number of the first line, from 0.
        first: u64,
        /// Number of lines.
        n: u64,
        /// The lines, each with its end.
        #[serde(skip)]
        text: Vec<u8>,
    },
    /// A line of a session that is too long for a message.
    TooLong {
        /// The session.
        id: FollowId,
        /// The number of the line.
        seq: u64,
        /// Its length.
        bytes: u64,
    },
    /// The session goes on.
    Alive {
        /// The session.
        id: FollowId,
        /// The number of the next line.
        next: u64,
    },
    /// The session has ended, or is not known.
    Ended {
        /// The session.
        id: FollowId,
        /// The number of its lines, if they are known.
        next: Option<u64>,
        /// Why it has ended.
        why: String,
    },
    /// These sessions are followed, all that the sender follows on this node; with the number of
    /// the next line that it expects of each.
    Keep {
        /// The sessions.
        follows: Vec<(FollowId, u64)>,
    },
    /// All lines before this one were handled, or are lost.
    Handled {
        /// The session.
        id: FollowId,
        /// The number of the next line.
        next: u64,
    },
    /// The session is not followed any longer.
    Cancel {
        /// The session.
        id: FollowId,
    },
}

impl FollowMessage {
    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let text = match self {
            Self::Lines { text, .. } => text.as_slice(),
            _ => &[],
        };
        join(self, text)
    }

    /// The message of bytes.
    ///
    /// # Errors
    /// The bytes are no message of this version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        let (mut message, payload) = split(bytes)?;
        if let Self::Lines { text, .. } = &mut message {
            *text = payload;
        }
        Ok(message)
    }
}

/// The command that begins a session: these lines are sent on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowRequest {
    /// Its id.
    pub id: FollowId,
    /// Requests and calls.
    pub lines: Vec<String>,
}

impl FollowRequest {
    /// The payload of its command.
    pub fn to_payload(&self) -> Vec<u8> {
        marked_json(MARK, self)
    }

    /// The request of a payload; `None` if the command is a line.
    ///
    /// # Errors
    /// It begins like one, and is none of this version.
    pub fn from_payload(payload: &[u8]) -> Option<Result<Self, String>> {
        let json = payload.strip_prefix(MARK)?;
        let read = read_json(json);
        Some(read.map_err(|why| format!("no request of this version to follow: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_survives_its_bytes(text: Vec<u8>, first: u64, why: String, next: Option<u64>) {
            let id = FollowId { start: first, number: 2 };
            for message in [
                FollowMessage::Lines { id, first, n: 3, text },
                FollowMessage::Ended { id, next, why },
                FollowMessage::Keep { follows: vec![(id, first)] },
            ] {
                let again = FollowMessage::from_bytes(&message.to_bytes());
                prop_assert_eq!(again.expect("its own bytes"), message);
            }
        }

        #[test]
        fn other_bytes_are_an_error(bytes: Vec<u8>) {
            prop_assert!(FollowMessage::from_bytes(&bytes).is_err());
            prop_assert!(FollowRequest::from_payload(&bytes).is_none_or(|it| it.is_err()));
        }
    }

    #[test]
    fn a_line_of_a_user_is_no_request_to_follow() {
        let request = FollowRequest { id: FollowId::default(), lines: vec!["1 [] a()".into()] };
        let payload = request.to_payload();
        assert_eq!(FollowRequest::from_payload(&payload), Some(Ok(request)));
        assert_eq!(FollowRequest::from_payload(&payload[1..]), None);
    }
}
