//! What tools of this node follow on other nodes.
//!
//! In: sets of nodes, what became of the commands that begin sessions, messages of the nodes,
//! changes among the members, time. Out: messages, lines, the state of each node, and nodes on
//! which a session is to be begun: those that join later, and those that have lost theirs. Lines
//! of a node have numbers, so what is lost is counted exactly; what a session sent after the last
//! sign of life of its node is not known.

use super::message::{FollowId, FollowMessage};
use super::{KEEP, SILENT};
use crate::bus::membership::Membership;
use crate::node_set::expand;
use monitor_model::Ns;
use std::collections::{BTreeMap, BTreeSet};

/// Number of sets that are followed from this node.
const MAX_FOLLOWS: usize = 256;
/// Bytes of one session that are handled before its node is notified.
const HANDLED_BYTES: usize = 256 << 10;
/// Time between two attempts to begin a session on a node.
const RETRY: Ns = Ns(2_000_000_000);

/// What a tool follows: a number of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FollowKey(pub u64);

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowState {
    /// Its session runs.
    Open,
    /// Its session was not begun, and will not be unless the node joins again; why.
    Refused(String),
    /// The command was not executed in time.
    Expired,
    /// It is not known whether its session runs.
    Missing,
    /// It gives no sign of life; its session may run.
    Silent,
    /// Its session has ended by itself, or with its daemon; why. It is begun again.
    Interrupted(String),
    /// It has left the cluster.
    Left,
    /// It was removed from the cluster.
    Dead,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowOutput {
    /// Send a message to a node.
    Send(String, FollowMessage),
    /// Begin a session on a node, with this id.
    Begin(FollowKey, String, FollowId),
    /// A tool gets something.
    Event(FollowKey, String, FollowEvent),
}

/// What a tool gets of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowEvent {
    /// Lines, each with its end, and the number of lines that were lost before them.
    Lines {
        /// The number of the first one.
        first: u64,
        /// Lines lost since the last event of the node.
        lost: u64,
        /// The lines.
        text: Vec<u8>,
    },
    /// The number of lines that were lost; why, if that is known.
    Lost(u64, String),
    /// Its state has changed.
    State(FollowState),
}

/// All that is followed.
pub struct Follows {
    /// Random number of this start of the daemon.
    start: u64,
    number: u64,
    all: BTreeMap<FollowKey, Follow>,
    next_keep: Ns,
}

struct Follow {
    /// The set as it was written; all members if absent.
    set: Option<String>,
    nodes: BTreeMap<String, FollowedNode>,
}

struct FollowedNode {
    id: FollowId,
    /// What was reported last; `None` while its session is begun.
    state: Option<FollowState>,
    /// The number of the next line.
    next: u64,
    /// Lines that the tool did not get, and was not notified of.
    undelivered: u64,
    /// Bytes since its node was last notified.
    bytes: usize,
    /// Its last sign of life.
    alive: Ns,
    /// When a session is begun again.
    retry: Option<Ns>,
}

impl Follow {
    /// The nodes of the set, of these members.
    fn expand(&self, all: &BTreeSet<String>) -> BTreeSet<String> {
        match &self.set {
            // It was a set when it was first expanded.
            Some(set) => expand(set, all).unwrap_or_default(),
            None => all.clone(),
        }
    }
}

impl FollowedNode {
    const fn new(id: FollowId, now: Ns) -> Self {
        Self { id, state: None, next: 0, undelivered: 0, bytes: 0, alive: now, retry: None }
    }

    /// Whether its session runs, or may run.
    const fn may_run(&self) -> bool {
        use FollowState::{Missing, Open, Silent};
        matches!(self.state, None | Some(Open | Missing | Silent))
    }

    /// Changes the state; returns the event if it is another one.
    fn set(&mut self, state: FollowState) -> Option<FollowEvent> {
        let is_new = self.state.as_ref() != Some(&state);
        is_new.then(|| FollowEvent::State(self.state.insert(state).clone()))
    }

    /// Notes that lines before this one came, or never will; returns the number of lost ones.
    fn lost_before(&mut self, first: u64) -> u64 {
        let lost = first - self.next;
        self.next = first;
        lost + std::mem::take(&mut self.undelivered)
    }
}

impl Follows {
    /// Nothing is followed. `start` is a random number.
    pub const fn new(start: u64) -> Self {
        Self { start, number: 0, all: BTreeMap::new(), next_keep: Ns(0) }
    }

    /// When the next `tick` is due; `None` if nothing is followed.
    pub fn due(&self) -> Option<Ns> {
        (!self.all.is_empty()).then_some(self.next_keep)
    }

    /// Follows a set, whose nodes are these now; returns the id of the command for them.
    ///
    /// # Errors
    /// Too many sets are followed.
    pub fn add(
        &mut self,
        now: Ns,
        set: Option<String>,
        names: &BTreeSet<String>,
    ) -> Result<(FollowKey, FollowId), String> {
        if self.all.len() >= MAX_FOLLOWS {
            return Err(format!("{MAX_FOLLOWS} sets of nodes are followed from this node"));
        }
        if self.all.is_empty() {
            self.next_keep = Ns(now.0 + KEEP.0);
        }
        let id = self.next_id();
        let node = |name: &String| (name.clone(), FollowedNode::new(id, now));
        let follow = Follow { set, nodes: names.iter().map(node).collect() };
        let key = FollowKey(id.number);
        self.all.insert(key, follow);
        Ok((key, id))
    }

    /// Follows no longer.
    pub fn remove(&mut self, key: FollowKey) -> Vec<FollowOutput> {
        let Some(follow) = self.all.remove(&key) else { return Vec::new() };
        let running = follow.nodes.into_iter().filter(|(_, node)| node.may_run());
        let cancel = |(name, node): (String, FollowedNode)| {
            FollowOutput::Send(name, FollowMessage::Cancel { id: node.id })
        };
        running.map(cancel).collect()
    }

    /// Notes what became of the command on a node, if it was not executed.
    pub fn not_begun(
        &mut self,
        id: FollowId,
        name: &str,
        state: FollowState,
    ) -> Option<FollowOutput> {
        let (key, node) = self.node_of(id, name)?;
        // Its messages may have come before.
        let is_open = node.state.is_some();
        let event = if is_open { None } else { node.set(state) };
        event.map(|event| FollowOutput::Event(key, name.to_owned(), event))
    }

    /// Notes that the command was executed on a node.
    pub fn begun(&mut self, id: FollowId, name: &str) -> Option<FollowOutput> {
        let (key, node) = self.node_of(id, name)?;
        let event = node.set(FollowState::Open);
        event.map(|event| FollowOutput::Event(key, name.to_owned(), event))
    }

    /// Notes that the tool did not get lines of a node: it reads too slowly.
    pub fn undelivered(&mut self, key: FollowKey, name: &str, n: u64) {
        let follow = self.all.get_mut(&key);
        if let Some(node) = follow.and_then(|it| it.nodes.get_mut(name)) {
            node.undelivered += n;
        }
    }

    /// A node has joined: its session, if it had one, is gone.
    pub fn joined(&mut self, now: Ns, name: &str, members: &Membership) -> Vec<FollowOutput> {
        let all = names(members);
        let is_meant =
            |follow: &Follow| follow.nodes.contains_key(name) || follow.expand(&all).contains(name);
        let meant = self.all.iter().filter(|(_, follow)| is_meant(follow));
        let meant: Vec<FollowKey> = meant.map(|(key, _)| *key).collect();
        meant.into_iter().map(|key| self.begin(now, key, name)).collect()
    }

    /// A node has gone.
    pub fn gone(&mut self, name: &str, state: &FollowState) -> Vec<FollowOutput> {
        let mut out = Vec::new();
        for (key, follow) in &mut self.all {
            let Some(node) = follow.nodes.get_mut(name) else { continue };
            node.retry = None;
            let event = node.set(state.clone());
            out.extend(event.map(|event| FollowOutput::Event(*key, name.to_owned(), event)));
        }
        out
    }

    /// Handles a message of a node with sessions.
    pub fn message(&mut self, now: Ns, from: &str, message: FollowMessage) -> Vec<FollowOutput> {
        let (FollowMessage::Lines { id, .. }
        | FollowMessage::TooLong { id, .. }
        | FollowMessage::Alive { id, .. }
        | FollowMessage::Ended { id, .. }) = message
        else {
            // Those are of the other end.
            return Vec::new();
        };
        let Some((key, node)) = self.node_of(id, from) else {
            let is_ended = matches!(message, FollowMessage::Ended { .. });
            let cancel = FollowMessage::Cancel { id };
            return if is_ended { Vec::new() } else { vec![send(from, cancel)] };
        };
        node.alive = now;
        let mut out = Vec::new();
        let event = |event| FollowOutput::Event(key, from.to_owned(), event);
        if !matches!(message, FollowMessage::Ended { .. }) && node.may_run() {
            out.extend(node.set(FollowState::Open).map(event));
        }
        match message {
            FollowMessage::Lines { first, n, text, .. } if first >= node.next => {
                let lost = node.lost_before(first);
                node.next = first.saturating_add(n);
                node.bytes += text.len();
                out.push(event(FollowEvent::Lines { first, lost, text }));
                if node.bytes >= HANDLED_BYTES {
                    node.bytes = 0;
                    out.push(send(from, FollowMessage::Handled { id, next: node.next }));
                }
            }
            FollowMessage::TooLong { seq, bytes, .. } if seq >= node.next => {
                let lost = node.lost_before(seq.saturating_add(1));
                let why = format!("a line of {bytes} bytes is too long for the bus");
                out.push(event(FollowEvent::Lost(lost, why)));
            }
            FollowMessage::Alive { next, .. } if next > node.next => {
                let lost = node.lost_before(next);
                out.push(event(FollowEvent::Lost(lost, String::new())));
            }
            // It does not know of the session yet.
            FollowMessage::Ended { next: None, .. } if node.state.is_none() => {}
            FollowMessage::Ended { next, why, .. } if node.may_run() => {
                let lost = node.lost_before(next.unwrap_or_default().max(node.next));
                let lost = (lost > 0).then(|| FollowEvent::Lost(lost, String::new()));
                out.extend(lost.map(event));
                node.retry = Some(Ns(now.0.saturating_add(RETRY.0)));
                out.extend(node.set(FollowState::Interrupted(why)).map(event));
            }
            // It was overtaken by a later one, which has counted it as lost.
            _ => {}
        }
        out
    }

    /// Handles the passing of time: lists what is followed, reports silence and what tools did not
    /// get, and begins sessions where there is none.
    pub fn tick(&mut self, now: Ns, members: &Membership) -> Vec<FollowOutput> {
        if now < self.next_keep {
            return Vec::new();
        }
        self.next_keep = Ns(now.0 + KEEP.0);
        let (mut out, mut again) = self.compare(members);
        let mut keeps: BTreeMap<&String, Vec<(FollowId, u64)>> = BTreeMap::new();
        for (key, follow) in &mut self.all {
            for (name, node) in &mut follow.nodes {
                let event = |event| FollowOutput::Event(*key, name.clone(), event);
                let lost = std::mem::take(&mut node.undelivered);
                let slow = || FollowEvent::Lost(lost, "the tool reads too slowly".to_owned());
                out.extend((lost > 0).then(slow).map(event));
                if node.state == Some(FollowState::Open) && now.since(node.alive) > SILENT {
                    out.extend(node.set(FollowState::Silent).map(event));
                }
                if node.may_run() {
                    keeps.entry(name).or_default().push((node.id, node.next));
                } else if node.retry.is_some_and(|due| due <= now) {
                    again.push((*key, name.clone()));
                }
            }
        }
        let keep = |(name, follows): (&String, _)| send(name, FollowMessage::Keep { follows });
        out.extend(keeps.into_iter().map(keep));
        out.extend(again.into_iter().map(|(key, name)| self.begin(now, key, &name)));
        out
    }

    /// Compares the nodes with the members: changes do not come one by one after a gap of the
    /// order. Returns events, and where a session is to be begun.
    fn compare(&mut self, members: &Membership) -> (Vec<FollowOutput>, Vec<(FollowKey, String)>) {
        let (mut out, mut again) = (Vec::new(), Vec::new());
        let all = names(members);
        for (key, follow) in &mut self.all {
            let new = follow.expand(&all);
            again.extend(
                new.into_iter()
                    .filter(|name| all.contains(name) && !follow.nodes.contains_key(name))
                    .map(|name| (*key, name)),
            );
            for (name, node) in &mut follow.nodes {
                let is_gone = matches!(node.state, Some(FollowState::Left | FollowState::Dead));
                match (all.contains(name), is_gone) {
                    (true, true) => again.push((*key, name.clone())),
                    (false, false) if node.state.is_some() && node.may_run() => {
                        let event = node.set(FollowState::Dead);
                        let output = |event| FollowOutput::Event(*key, name.clone(), event);
                        out.extend(event.map(output));
                    }
                    _ => {}
                }
            }
        }
        (out, again)
    }

    fn begin(&mut self, now: Ns, key: FollowKey, name: &str) -> FollowOutput {
        let id = self.next_id();
        if let Some(follow) = self.all.get_mut(&key) {
            let node = FollowedNode::new(id, now);
            let old = follow.nodes.insert(name.to_owned(), node);
            let lost = old.map_or(0, |node| node.undelivered);
            self.undelivered(key, name, lost);
        }
        FollowOutput::Begin(key, name.to_owned(), id)
    }

    fn node_of(&mut self, id: FollowId, name: &str) -> Option<(FollowKey, &mut FollowedNode)> {
        self.all.iter_mut().find_map(|(key, follow)| {
            let node = follow.nodes.get_mut(name).filter(|node| node.id == id)?;
            Some((*key, node))
        })
    }

    const fn next_id(&mut self) -> FollowId {
        self.number += 1;
        FollowId { start: self.start, number: self.number }
    }
}

fn names(members: &Membership) -> BTreeSet<String> {
    members.iter().map(|it| it.node.clone()).collect()
}

fn send(to: &str, message: FollowMessage) -> FollowOutput {
    FollowOutput::Send(to.to_owned(), message)
}
