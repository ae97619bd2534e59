//! What services act on: the processes of this node, what happens to them, acts, the node itself.
//!
//! A trait for each concern, so that each can be served by somebody else; `live` is the node that
//! we run on, `scripted` a world that a text describes. Nothing here waits: what cannot be done at
//! once is begun, and reported later under its ticket.

pub mod action;
pub mod status_map;
pub mod call;
pub mod diag;
pub mod disk;
pub mod events;
pub mod node_facts;
mod fake_processes;
pub mod rule_runner;
pub mod linux;
pub mod message_queues;
pub mod monitors;
pub mod process;
pub mod rules;
pub mod message_queue;
mod poller;
pub mod recorder;
pub mod fake;
pub mod tap;

pub use action::{ProcessAction, ProcessActions, ActionContext};
pub use call::LibraryCalls;
pub use diag::DiagProbes;
pub use disk::Disks;
pub use events::{WatchedProcesses, PlatformEvent, EventSource};
pub use node_facts::{NodeInfo, NodeFacts};
pub use rule_runner::{RuleRunner, RuleTargets, CompiledRule, CompiledRules, RuleKey};
pub use message_queues::MessageQueues;
pub use monitor_event::thread::{HeldThread, RunControl, RunControlRequest};
pub use monitors::{HasMonitors, MonitorCalls};
pub use process::Processes;
pub use recorder::Recorder;

/// A node.
pub trait Platform:
    Processes
    + NodeInfo
    + ProcessActions
    + EventSource
    + MessageQueues
    + LibraryCalls
    + RuleRunner
    + DiagProbes
    + Recorder
    + Disks
    + HasMonitors
    + Send
{
}
