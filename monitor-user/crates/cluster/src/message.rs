//! What nodes say to each other. Plain data, so that any link can carry it.

use super::order::Letter;
use monitor_model::request::Request;
use monitor_model::status::{Refusal, Status};
use monitor_protocol::event::Event;
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
    /// About requests of the language.
    Request {
        /// What.
        letter: RequestLetter,
    },
}

/// What nodes say to each other about requests of the language.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestLetter {
    /// About the one order.
    Order(Letter),
    /// What a node answers to its part.
    Answer(WrittenAnswer),
    /// A reply for a tool of the node that this is sent to.
    Spoken(WrittenReply),
}

/// Something that nodes shall do (`engine::ask::Packet`), as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The node that waits for answers.
    pub from: u32,
    /// The list that this is a part of.
    pub course: u64,
    /// Which part.
    pub member: usize,
    /// The node of the tool.
    pub entry: u32,
    /// Its connection there.
    pub conn: u64,
    /// Its user, group and process.
    pub ids: [u32; 3],
    /// With whose eyes it sees, and whether others are hidden; sees all, if absent.
    pub eyes: Option<(u32, u32, bool)>,
    /// On whose processes it may act: 0 nobody's, 1 its own, 2 all.
    pub reach: u8,
    /// Whether it speaks OMIS 1.0 to the letter.
    pub is_strict: bool,
    /// How deep in events that raise each other.
    pub depth: u32,
    /// The request; empty, if the tool has gone.
    pub request: String,
}

/// An answer, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenAnswer {
    /// The list.
    pub course: u64,
    /// Which part of it.
    pub member: usize,
    /// A basic reply, with the node, the status and the results.
    pub answer: String,
    /// Why it was refused.
    pub reason: Option<(i32, String)>,
}

/// A reply for a tool, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenReply {
    /// The node of the tool.
    pub entry: u32,
    /// Its connection there.
    pub conn: u64,
    /// The line.
    pub reply: String,
    /// Whether it is told at an event.
    pub is_told: bool,
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
