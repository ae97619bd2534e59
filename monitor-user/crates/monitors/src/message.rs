//! What wakes the engine, and what it asks for.

use super::alarm::LookAt;
use super::answer::Answer;
use super::caller::Caller;
use monitor_model::status::Refusal;
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_protocol::event::Event;
use monitor_protocol::params::Flight;
use monitor_sampling::census::Claim;
use monitor_sampling::eye::Eye;
use monitor_sampling::file::{Stat, Unseen};
use monitor_sampling::view::Seen;

/// Whatever can wake the engine.
pub enum Input {
    /// Somebody is there.
    Opened(Caller),
    /// He is gone.
    Closed(Conn),
    /// He called.
    Called {
        /// Who.
        from: Conn,
        /// What the reply carries; no reply, if absent.
        tag: Option<Tag>,
        /// What.
        call: Call,
    },
    /// The views come back from a reading.
    Seen(Vec<Look>),
    /// Somebody looked at a file.
    Looked(Key, Result<Stat, Unseen>),
    /// Somebody whom these watch has ended, and his last record is there.
    Ended(Vec<Key>),
    /// What became of claims.
    Claimed(Vec<(Key, Result<(), Refusal>)>),
    /// Time has passed.
    Tick,
    /// The service ends.
    Shutdown,
}

/// Whatever the engine asks for.
pub enum Output {
    /// The reply to a call.
    Reply {
        /// To whom.
        to: Conn,
        /// The tag of his call.
        tag: Tag,
        /// What became of it.
        answer: Result<Answer, Refusal>,
    },
    /// Something that he asked to be told.
    Event {
        /// Whom.
        to: Conn,
        /// What.
        event: Event,
    },
    /// Read, and let these look.
    Look(Vec<Look>),
    /// Look at a file.
    LookAt(LookAt),
    /// See whether processes can be registered, and do it.
    Claims(Vec<(Key, Claim)>),
    /// Answer what is not about monitors.
    Asked {
        /// Whom.
        to: Conn,
        /// The tag of his call.
        tag: Tag,
        /// What he wants to know.
        about: About,
    },
}

/// What the engine does not know of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// How each capability is served.
    Probes,
    /// What the service uses.
    Service,
    /// Requests that wait for their events.
    Rules,
    /// What the flight recorder kept.
    Flight(Flight),
}

/// One view, on its way to a reading or back.
pub struct Look {
    /// Of which monitor.
    pub key: Key,
    /// The view.
    pub view: Eye,
    /// What it saw, on the way back.
    pub seen: Option<Result<Seen, Refusal>>,
}

/// A monitor, as the engine counts them.
pub type Key = u64;
