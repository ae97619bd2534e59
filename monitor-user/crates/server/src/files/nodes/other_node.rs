//! One other node: its address, and what is known of it.

use super::super::event_feed::unix_ns;
use super::super::event_log::EventLog;
use super::address::NodeAddress;
use super::proxy::NodeProxy;
use super::status::NodeStatus;
use crate::lock::lock;
use monitor_remote::Connector;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A node.
pub struct OtherNode {
    /// Its name and address.
    pub at: NodeAddress,
    /// Its files that are read here.
    pub proxy: Arc<NodeProxy>,
    status: Mutex<NodeStatus>,
    /// What has changed, of all nodes.
    changes: Arc<EventLog>,
}

/// What a node has answered.
pub struct NodeAnswer {
    /// Its state, as a word.
    pub word: String,
    /// The number of its sessions.
    pub jobs: Option<u64>,
    /// How long the answer took, in microseconds.
    pub rtt_us: u64,
}

impl OtherNode {
    /// A node that has not answered yet.
    pub fn new(at: NodeAddress, connector: Connector, changes: Arc<EventLog>) -> Self {
        let proxy = NodeProxy::new(at.address.clone(), connector);
        Self { at, proxy, status: Mutex::default(), changes }
    }

    /// What is known of it.
    pub fn status(&self) -> NodeStatus {
        lock(&self.status).clone()
    }

    /// Its operating system and machine, as it says.
    pub fn set_arch(&self, arch: String) {
        lock(&self.status).arch = arch;
    }

    /// It has answered.
    pub fn answered(&self, answer: NodeAnswer) {
        let mut status = lock(&self.status);
        status.jobs = answer.jobs;
        status.rtt_us = Some(answer.rtt_us);
        status.seen = Some(Instant::now());
        let before = std::mem::replace(&mut status.word, answer.word.clone());
        drop(status);
        self.report(&before, &answer.word);
    }

    /// It does not answer.
    pub fn set_down(&self, word: String) {
        let before = std::mem::replace(&mut lock(&self.status).word, word.clone());
        self.report(&before, &word);
    }

    /// Adds the change of its status, if it is one; `-` is that of a node that is not there.
    pub fn report(&self, before: &str, now: &str) {
        if before != now {
            let (name, unix_ms) = (&self.at.name, unix_ns() / 1_000_000);
            self.changes.add_line(|_| format!("{name} {before} {now} {unix_ms}\n"));
        }
    }
}
