//! Messages of the total order: plain data, with requests as text.

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

/// Serialized form of `monitor_services::requests::Packet`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WirePacket {
    /// The node that waits for the replies.
    pub from: u32,
    /// The execution that this is part of.
    pub execution: u64,
    /// The member of the execution.
    pub member: usize,
    /// The node of the tool.
    pub entry: u32,
    /// Its connection there.
    pub conn: u64,
    /// Its user, group and process.
    pub ids: [u32; 3],
    /// Uid and gid of its visibility, and whether other processes are hidden; sees all if absent.
    pub visibility: Option<(u32, u32, bool)>,
    /// The processes that it may control: 0 none, 1 its user's, 2 all.
    pub control: u8,
    /// Whether its dialect is strict OMIS 1.0.
    pub is_strict: bool,
    /// Nesting in events that raise each other.
    pub depth: u32,
    /// The request; empty if the tool has disconnected.
    pub request: String,
}
