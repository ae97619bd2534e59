//! What nodes write to each other to agree on an order: plain data, requests as text.

use crate::message::Written;
use serde::{Deserialize, Serialize};

/// A letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "letter", rename_all = "snake_case")]
pub enum Letter {
    /// Give this a number.
    Propose {
        /// In this view.
        view: u64,
        /// What its origin calls it.
        nonce: u64,
        /// It.
        parcel: Parcel,
    },
    /// This has this number.
    Deliver {
        /// In this view.
        view: u64,
        /// The number.
        seq: u64,
        /// What has it.
        slot: Slot,
    },
    /// Numbers were given out so far.
    UpTo {
        /// In this view.
        view: u64,
        /// The last.
        seq: u64,
    },
    /// Send what these numbers have.
    Fetch {
        /// The first of them.
        first: u64,
        /// The last.
        last: u64,
    },
    /// Show what you have seen: a view begins.
    Gather {
        /// Which.
        view: u64,
    },
    /// What somebody has seen.
    Held {
        /// For which view.
        view: u64,
        /// By number.
        slots: Vec<(u64, Slot)>,
    },
    /// Somebody waits for the view that you begin.
    Hello,
    /// A view has begun.
    View {
        /// Which.
        view: u64,
        /// The last number before it.
        base: u64,
    },
}

/// What has a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The node that proposed it.
    pub origin: u32,
    /// What that node calls it.
    pub nonce: u64,
    /// What is to be done; nothing, if nobody that lives has it.
    pub parcel: Option<Parcel>,
}

/// Something to do, for nodes; all of them, if none is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    /// Whose.
    pub nodes: Vec<u32>,
    /// What.
    pub what: Box<Written>,
}
