//! All other nodes that are followed, and the texts about them.
//!
//! In: the list of the configuration, and changes of an administrator. Out: `state` and `state.sx`,
//! nodes by name, and the log of what has changed.

use super::super::event_file::UserPlaces;
use super::super::event_log::EventLog;
use super::address::{MAX_NODES, NodeAddress};
use super::follower;
use super::other_node::OtherNode;
use super::status::{columns, put_line, put_list};
use crate::lock::lock;
use bytes::Bytes;
use monitor_remote::Connector;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How often a node is asked, until an administrator says otherwise.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// The columns of `state.sx`.
const HEADER: &str = "((name arch addr status jobs age_ms))\n";
/// How long texts serve the opens that follow: one that was sized is read with that size.
const TEXT_TIME: Duration = Duration::from_secs(1);

/// Other nodes.
pub struct OtherNodes {
    /// Those of the configuration.
    configured: Vec<NodeAddress>,
    connector: Connector,
    followed: Mutex<BTreeMap<String, Followed>>,
    interval: watch::Sender<Duration>,
    texts: Mutex<Option<StateTexts>>,
    /// A line for each change of a status.
    pub changes: Arc<EventLog>,
    /// The places in the changes that each user has left.
    pub places: UserPlaces,
}

struct Followed {
    node: Arc<OtherNode>,
    task: AbortHandle,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// `state` and `state.sx` at a time.
#[derive(Clone)]
pub struct StateTexts {
    /// With tabs.
    pub lines: Bytes,
    /// As lists.
    pub lists: Bytes,
    taken: Instant,
    /// The number of changes before.
    changes: u64,
}

impl OtherNodes {
    /// Follows the nodes of the configuration, which the connector connects to.
    pub fn new(configured: Vec<NodeAddress>, connector: Connector) -> Self {
        let it = Self {
            configured,
            connector,
            followed: Mutex::default(),
            interval: watch::channel(DEFAULT_INTERVAL).0,
            texts: Mutex::default(),
            changes: Arc::default(),
            places: UserPlaces::default(),
        };
        it.reset();
        it
    }

    /// Whether there is a directory of them: the configuration names some.
    pub fn is_on(&self) -> bool {
        !self.configured.is_empty()
    }

    /// Follows those of the configuration, and no others.
    pub fn reset(&self) {
        let names: Vec<String> = lock(&self.followed).keys().cloned().collect();
        let is_kept = |name: &str| {
            let node = self.get(name);
            node.is_some_and(|node| self.configured.contains(&node.at))
        };
        for name in names.iter().filter(|it| !is_kept(it)) {
            let _gone = self.remove(name);
        }
        for it in &self.configured {
            // Those that are followed already stay.
            let _there = self.add(it.clone());
        }
    }

    /// Follows a further node.
    ///
    /// # Errors
    ///
    /// When its name is in use, or too many are followed.
    pub fn add(&self, at: NodeAddress) -> Result<(), String> {
        let mut followed = lock(&self.followed);
        let name = at.name.clone();
        if followed.contains_key(&name) {
            return Err(format!("add: there is a node {name}: del it first"));
        }
        if followed.len() >= MAX_NODES {
            return Err(format!("add: {MAX_NODES} nodes are followed, the limit"));
        }
        let node = Arc::new(OtherNode::new(at, self.connector.clone(), Arc::clone(&self.changes)));
        node.report("-", &node.status().word);
        let task = follower::follow(
            (Arc::clone(&node), self.connector.clone()),
            self.interval.subscribe(),
        );
        let task = tokio::spawn(task).abort_handle();
        followed.insert(name, Followed { node, task });
        Ok(())
    }

    /// Follows a node no longer.
    ///
    /// # Errors
    ///
    /// When there is none of this name.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        let followed = lock(&self.followed).remove(name);
        let followed = followed.ok_or_else(|| format!("del: there is no node {name:?}"))?;
        followed.node.report(&followed.node.status().word, "-");
        Ok(())
    }

    /// Asks nodes this often.
    pub fn set_interval(&self, interval: Duration) {
        self.interval.send_replace(interval);
    }

    /// How often nodes are asked.
    pub fn interval(&self) -> Duration {
        *self.interval.borrow()
    }

    /// The node of this name.
    pub fn get(&self, name: &str) -> Option<Arc<OtherNode>> {
        lock(&self.followed).get(name).map(|it| Arc::clone(&it.node))
    }

    /// All nodes, by name.
    pub fn all(&self) -> Vec<Arc<OtherNode>> {
        lock(&self.followed).values().map(|it| Arc::clone(&it.node)).collect()
    }

    /// Follows no node any longer.
    pub fn close(&self) {
        lock(&self.followed).clear();
        self.changes.close();
    }

    /// The texts; those of a moment ago, if no status has changed since.
    pub fn texts(&self) -> StateTexts {
        let changes = self.changes.end();
        let mut kept = lock(&self.texts);
        let is_new = |it: &&StateTexts| it.changes == changes && it.taken.elapsed() < TEXT_TIME;
        if let Some(texts) = kept.as_ref().filter(is_new) {
            return texts.clone();
        }
        let (mut lines, mut lists) = (String::new(), HEADER.to_owned());
        for node in self.all() {
            let columns = columns(&node.status(), &node.at.written_address());
            put_line(&mut lines, &node.at.name, &columns);
            put_list(&mut lists, &node.at.name, &columns);
        }
        let taken = Instant::now();
        let texts = StateTexts { lines: lines.into(), lists: lists.into(), taken, changes };
        kept.insert(texts).clone()
    }
}
