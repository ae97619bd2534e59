//! What services act on: the processes of this node, their events, actions, the node itself.
//!
//! A trait for each concern; `linux` is the node that this program runs on, `fake` a world that a
//! text describes. Nothing here blocks: what cannot be done at once is started, and reported later
//! under its ticket.

pub mod action;
pub mod call;
pub mod call_measurement;
pub mod events;
pub mod fake;
mod fake_processes;
pub mod linux;
pub mod load_holds;
pub mod monitors;
pub mod node;
mod poller;
pub mod rule_runner;
pub mod rules;
pub mod status_map;
pub mod tap;

pub use action::{ActionContext, ProcessAction, ProcessActions};
pub use call::LibraryCalls;
pub use call_measurement::CallMeasurer;
pub use events::{EventSource, PlatformEvent, WatchedProcesses};
pub use monitor_control::message_queue::{
    self, QueueAnswer, QueueContent, QueueDetail, QueueQuery, QueuedMessage,
};
pub use monitor_event::thread::{HeldThread, RunControl, RunControlRequest};
pub use monitors::{HasMonitors, MonitorCalls};
pub use node::{DiagProbes, Disks, MessageQueues, NodeFacts, NodeInfo, Processes, Recorder};
pub use rule_runner::{CompiledRule, CompiledRules, RuleKey, RuleRunner, RuleTargets};

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
    + CallMeasurer
    + Disks
    + HasMonitors
    + Send
{
    /// Until `end_deferrable` a call need not wait for what takes long to open: it may be refused,
    /// and is to be made again after `FilesRead`.
    fn begin_deferrable(&mut self) {}

    /// Whether a call since `begin_deferrable` is to be made again.
    fn is_deferred(&self) -> bool {
        false
    }

    /// The same; from now on calls wait.
    fn end_deferrable(&mut self) -> bool {
        false
    }
}
