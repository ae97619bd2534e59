//! One other node: its address, and what is known of it.

use super::super::event_feed::unix_ns;
use super::super::event_log::EventLog;
use super::proxy::NodeProxy;
use super::status::NodeStatus;
use crate::lock::lock;
use monitor_remote::{Address, Connector};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A node.
pub struct OtherNode {
    /// Its name.
    pub name: String,
    /// Where it serves its files; a member of the cluster may have said none.
    pub address: Option<Address>,
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
    pub fn new(
        (name, address): (String, Option<Address>),
        connector: Connector,
        changes: Arc<EventLog>,
    ) -> Self {
        let proxy = NodeProxy::new((name.clone(), address.clone()), connector);
        Self { name, address, proxy, status: Mutex::default(), changes }
    }

    /// It is followed from now on, with this status.
    pub fn set_first_word(&self, word: &str) {
        word.clone_into(&mut lock(&self.status).word);
        self.report("-", word);
    }

    /// The same node as another one, whose address has changed: what is known of it stays.
    pub fn set_known(&self, of: &Self) {
        *lock(&self.status) = of.status();
    }

    /// The address, as it is written; empty if none is known.
    pub fn written_address(&self) -> String {
        self.address.as_ref().map(ToString::to_string).unwrap_or_default()
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

    /// Sets its status, such as that of a node that does not answer.
    pub fn set_word(&self, word: String) {
        let before = std::mem::replace(&mut lock(&self.status).word, word.clone());
        self.report(&before, &word);
    }

    /// Adds the change of its status, if it is one; `-` is that of a node that is not there.
    pub fn report(&self, before: &str, now: &str) {
        if before != now {
            let (name, unix_ms) = (&self.name, unix_ns() / 1_000_000);
            self.changes.add_line(|_| format!("{name} {before} {now} {unix_ms}\n"));
        }
    }
}
