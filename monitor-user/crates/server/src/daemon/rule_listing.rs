//! A list of stored requests: it passes through the threads of requests of this node, that of the
//! node's own sessions and that of the sessions of the cluster.
//!
//! In: the client that asks, the requests of each thread. Out: one reply with all of them, when the
//! last thread has added its own, or when a thread ends before.

use crate::outbox::Outbox;
use monitor_event::right::Tool;
use monitor_protocol::{answer::RuleSummary, call::Tag, reply};
use monitor_sampling::visibility::Visibility;
use std::sync::Arc;

/// A client that asks.
pub struct Viewer {
    /// Where the answer goes.
    pub outbox: Arc<Outbox>,
    /// The client's user.
    pub uid: u32,
    /// Which processes the client may see.
    pub visibility: Visibility,
}

/// Passes a list on.
pub type AskNext = Box<dyn FnOnce(RuleListing) + Send>;

/// The list; its end is the reply.
pub struct RuleListing {
    viewer: Viewer,
    tag: Tag,
    found: Vec<RuleSummary>,
    /// Asks the thread of the cluster, until that is done.
    next: Option<AskNext>,
    /// Whether the thread that is asked is that of the cluster.
    is_of_cluster: bool,
}

impl RuleListing {
    /// An empty list; after the thread of the node's own sessions, that of the cluster is asked.
    pub const fn new(viewer: Viewer, tag: Tag, cluster: Option<AskNext>) -> Self {
        Self { viewer, tag, found: Vec::new(), next: cluster, is_of_cluster: false }
    }

    /// Whether the client sees the requests of a tool: its own, or all if it may see all processes.
    pub fn shows(&self, tool: &Tool) -> bool {
        self.viewer.visibility == Visibility::All || tool.uid == self.viewer.uid
    }

    /// Adds the requests of the thread that is asked, and asks the next one.
    pub fn add(mut self, rules: Vec<RuleSummary>) {
        let is_of_cluster = self.is_of_cluster;
        // Without a cluster there is one node.
        let node = |it: RuleSummary| RuleSummary { node: it.node.filter(|_| is_of_cluster), ..it };
        self.found.extend(rules.into_iter().map(node));
        if let Some(ask) = self.next.take() {
            self.is_of_cluster = true;
            ask(self);
        }
    }
}

impl Drop for RuleListing {
    fn drop(&mut self) {
        let found = std::mem::take(&mut self.found);
        self.viewer.outbox.reply(reply::result_line(&self.tag, found));
    }
}
