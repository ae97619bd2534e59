//! Messages of the total order: plain data, with requests as text.

use crate::message::WirePacket;
use serde::{Deserialize, Serialize};

/// A message of the total order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "letter", rename_all = "snake_case")]
pub enum OrderMessage {
    /// Assign a sequence number to this payload.
    Propose {
        /// The view.
        view: u64,
        /// Number assigned by the proposing node.
        nonce: u64,
        /// The payload.
        payload: Payload,
    },
    /// A slot with its sequence number.
    Deliver {
        /// The view.
        view: u64,
        /// The sequence number.
        seq: u64,
        /// The slot.
        slot: Slot,
    },
    /// The last sequence number assigned so far.
    UpTo {
        /// The view.
        view: u64,
        /// The sequence number.
        seq: u64,
    },
    /// Request to resend slots.
    Fetch {
        /// The first sequence number.
        first: u64,
        /// The last sequence number.
        last: u64,
    },
    /// Request for all slots that a node has, to begin a view.
    CollectSlots {
        /// The view.
        view: u64,
    },
    /// The slots that a node has.
    Slots {
        /// The view.
        view: u64,
        /// The slots by sequence number.
        slots: Vec<(u64, Slot)>,
    },
    /// Request for the current view.
    Hello,
    /// A view has begun.
    View {
        /// The view.
        view: u64,
        /// The last sequence number before it.
        base: u64,
    },
}

/// A position in the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The node that proposed it.
    pub origin: u32,
    /// Number assigned by that node.
    pub nonce: u64,
    /// The payload; `None` if no live node has it.
    pub payload: Option<Payload>,
}

/// A packet for nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The nodes; all if empty.
    pub nodes: Vec<u32>,
    /// The packet.
    pub packet: Box<WirePacket>,
}
