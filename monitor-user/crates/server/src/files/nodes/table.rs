//! All other nodes that are followed, and the texts about them.
//!
//! In: the list of the configuration or the members of the cluster, and changes of an
//! administrator. Out: `state` and `state.sx`,
//! nodes by name, and the log of what has changed.

use super::super::event_file::UserPlaces;
use super::super::event_log::EventLog;
use super::address::{MAX_NODES, NodeAddress};
use super::follower;
use super::member::MemberNode;
use super::other_node::OtherNode;
use super::status::{columns, put_line, put_list};
use super::usage::NodesUsage;
use crate::lock::lock;
use bytes::Bytes;
use monitor_remote::{Address, Connector};
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

/// Which nodes are followed.
#[derive(Clone, Debug)]
pub enum NodesSource {
    /// Those of the configuration.
    Listed(Vec<NodeAddress>),
    /// The members of the cluster.
    Members,
}

/// Other nodes.
pub struct OtherNodes {
    source: NodesSource,
    connector: Connector,
    followed: Mutex<BTreeMap<String, Followed>>,
    interval: watch::Sender<Duration>,
    texts: Mutex<Option<StateTexts>>,
    /// A line for each change of a status.
    pub changes: Arc<EventLog>,
    /// The places in the changes that each user has left.
    pub places: UserPlaces,
    /// Whether clients use the files of it.
    pub usage: NodesUsage,
}

/// Why a node is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// It is in the configuration, or an administrator has added it.
    Listed,
    /// It is a member of the cluster.
    Member,
}

struct Followed {
    node: Arc<OtherNode>,
    origin: Origin,
    /// None for a member that is not asked now.
    task: Option<FollowTask>,
}

/// The task that follows a node; ended with it.
struct FollowTask(AbortHandle);

impl Drop for FollowTask {
    fn drop(&mut self) {
        self.0.abort();
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
    /// Follows these nodes, which the connector connects to.
    pub fn new(source: NodesSource, connector: Connector) -> Self {
        let it = Self {
            source,
            connector,
            followed: Mutex::default(),
            interval: watch::channel(DEFAULT_INTERVAL).0,
            texts: Mutex::default(),
            changes: Arc::default(),
            places: UserPlaces::default(),
            usage: NodesUsage::default(),
        };
        it.reset();
        it
    }

    /// Whether there is a directory of them: the configuration names some, or a cluster.
    pub fn is_on(&self) -> bool {
        !matches!(&self.source, NodesSource::Listed(nodes) if nodes.is_empty())
    }

    /// Whether they are the members of the cluster.
    pub const fn are_members(&self) -> bool {
        matches!(self.source, NodesSource::Members)
    }

    /// Follows those of the configuration or of the cluster, and no others.
    pub fn reset(&self) {
        let configured = match &self.source {
            NodesSource::Listed(nodes) => nodes.as_slice(),
            NodesSource::Members => &[],
        };
        let is_configured = |node: &OtherNode| {
            let address = node.address.as_ref();
            configured.iter().any(|it| it.name == node.name && Some(&it.address) == address)
        };
        let followed = lock(&self.followed);
        let gone = followed.values().filter(|it| it.origin == Origin::Listed);
        let gone = gone.filter(|it| !is_configured(&it.node));
        let gone: Vec<String> = gone.map(|it| it.node.name.clone()).collect();
        drop(followed);
        for name in gone {
            let _gone = self.remove(&name);
        }
        for it in configured {
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
        let node = Arc::new(self.node((name.clone(), Some(at.address.clone()))));
        node.report("-", &node.status().word);
        let task = Some(self.follow(&node, at.address));
        followed.insert(name, Followed { node, origin: Origin::Listed, task });
        Ok(())
    }

    fn node(&self, of: (String, Option<Address>)) -> OtherNode {
        OtherNode::new(of, self.connector.clone(), Arc::clone(&self.changes))
    }

    fn follow(&self, node: &Arc<OtherNode>, address: Address) -> FollowTask {
        let at = (Arc::clone(node), address, self.connector.clone());
        let task = follower::follow(at, self.interval.subscribe());
        FollowTask(tokio::spawn(task).abort_handle())
    }

    /// Sets the members of the cluster; if they are asked, those with an address say their status
    /// themselves. A node that an administrator has added stays as it is.
    pub fn set_members(&self, members: &[MemberNode], are_asked: bool) {
        let mut followed = lock(&self.followed);
        followed.retain(|name, it| {
            let stays =
                it.origin == Origin::Listed || members.iter().any(|member| member.name == *name);
            if !stays {
                it.node.report(&it.node.status().word, "-");
            }
            stays
        });
        for member in members {
            let there = followed.get(&member.name);
            if there.is_some_and(|it| it.origin == Origin::Listed)
                || there.is_none() && followed.len() >= MAX_NODES
            {
                continue;
            }
            let is_same = there.is_some_and(|it| it.node.address == member.address);
            if !is_same {
                let node = self.node((member.name.clone(), member.address.clone()));
                match there {
                    Some(before) => node.set_known(&before.node),
                    None => node.set_first_word(member.word),
                }
                let (node, origin) = (Arc::new(node), Origin::Member);
                followed.insert(member.name.clone(), Followed { node, origin, task: None });
            }
            if let Some(it) = followed.get_mut(&member.name) {
                self.ask_member(it, member, are_asked);
            }
        }
    }

    /// Begins or ends to ask a member; without, its status is its state in the cluster.
    fn ask_member(&self, it: &mut Followed, member: &MemberNode, is_asked: bool) {
        match &member.address {
            Some(address) if is_asked => {
                if it.task.is_none() {
                    it.task = Some(self.follow(&it.node, address.clone()));
                }
            }
            _ => {
                it.task = None;
                it.node.set_word(member.word.to_owned());
            }
        }
    }

    /// Follows a node no longer.
    ///
    /// # Errors
    ///
    /// When there is none of this name, or it is a member of the cluster.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        let mut all = lock(&self.followed);
        let origin = all.get(name).map(|it| it.origin);
        if origin == Some(Origin::Member) {
            return Err(format!("del: {name} is a member of the cluster, whose nodes these are"));
        }
        let followed = all.remove(name);
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
            let columns = columns(&node.status(), &node.written_address());
            put_line(&mut lines, &node.name, &columns);
            put_list(&mut lists, &node.name, &columns);
        }
        let taken = Instant::now();
        let texts = StateTexts { lines: lines.into(), lists: lists.into(), taken, changes };
        kept.insert(texts).clone()
    }
}
