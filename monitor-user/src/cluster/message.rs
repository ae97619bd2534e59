//! What nodes say to each other. Plain data, so that any link can carry it.

use crate::model::request::Request;
use crate::model::status::{Refusal, Status};
use crate::wire::event::Event;
use serde::{Deserialize, Serialize};

/// The part of a request that one node has, as the asking node counts them.
pub type Ticket = u64;

/// A message.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Message {
    /// Do this part.
    Ask {
        /// Which part.
        ticket: Ticket,
        /// For whom.
        caller: Whom,
        /// What.
        request: Box<Request>,
    },
    /// Its first sample, or why there is none.
    Answer {
        /// Of which part.
        ticket: Ticket,
        /// What became of it.
        answer: Part,
    },
    /// A later sample.
    Event {
        /// Of which part.
        ticket: Ticket,
        /// The event.
        event: Event,
    },
    /// No more of this part.
    Cancel {
        /// Which.
        ticket: Ticket,
    },
    /// Nothing more will come of it.
    Cancelled {
        /// Which.
        ticket: Ticket,
    },
    /// These are still wanted.
    Renew {
        /// Which.
        tickets: Vec<Ticket>,
    },
}

/// For whom a node asks: users are the same on all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whom {
    /// The user.
    pub uid: u32,
    /// His group.
    pub gid: u32,
    /// His process on the asking node.
    pub pid: u32,
}

/// What became of a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A sample; whether something in it is missing.
    Sample {
        /// The sample.
        event: Box<Event>,
        /// Whether something is missing.
        partial: bool,
    },
    /// None.
    Refused {
        /// The number of the status.
        status: i32,
        /// The sentence.
        message: String,
    },
}

impl From<Refusal> for Part {
    fn from(refusal: Refusal) -> Self {
        Self::Refused { status: refusal.status.number(), message: refusal.message }
    }
}

impl Part {
    /// As a result.
    pub fn result(self) -> Result<(Event, bool), Refusal> {
        match self {
            Self::Sample { event, partial } => Ok((*event, partial)),
            Self::Refused { status, message } => {
                Err(Refusal::new(Status::of(status).unwrap_or(Status::Error), message))
            }
        }
    }
}
