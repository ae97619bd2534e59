//! What services act on: the processes of this node, what happens to them, acts, the node itself.
//!
//! A trait for each concern, so that each can be served by somebody else; `live` is the node that
//! we run on, `scripted` a world that a text describes. Nothing here waits: what cannot be done at
//! once is begun, and reported later under its ticket.

pub mod act;
pub mod answer;
pub mod call;
pub mod diagnose;
pub mod disk;
pub mod events;
pub mod fact;
mod fake;
pub mod list;
pub mod live;
pub mod message;
pub mod monitors;
pub mod process;
pub mod program;
pub mod queue;
mod reading;
pub mod recorder;
pub mod scripted;
pub mod tap;

use monitor_event::node_event::{EventKind, NodeEvent};
use monitor_event::outcome::EventParam;
use monitor_model::id::{Identity, Ns};

pub use act::{Act, Acts, By};
pub use call::Calls;
pub use diagnose::Diagnoses;
pub use disk::Disks;
pub use events::{Followed, Happening, Happenings};
pub use fact::{Facts, NodeFacts};
pub use list::{Lists, Members, Program, Programs, RuleKey};
pub use message::Messages;
pub use monitor_event::thread::{HeldThread, RunControl, RunControlRequest};
pub use monitors::{Monitored, Monitors};
pub use process::Processes;
pub use recorder::Recorder;

/// That a process has come from another node.
fn arrival(id: Identity) -> NodeEvent {
    let told = [EventParam::Process(id), EventParam::Value(id.pid.0.into())];
    NodeEvent { process: Some(id), ..NodeEvent::new(EventKind::Migrated, Ns(0), told.into()) }
}

/// A node.
pub trait Ground:
    Processes
    + Facts
    + Acts
    + Happenings
    + Messages
    + Calls
    + Lists
    + Diagnoses
    + Recorder
    + Disks
    + Monitored
    + Send
{
}

impl Ground for live::Live {}
impl Ground for scripted::Scripted {}
