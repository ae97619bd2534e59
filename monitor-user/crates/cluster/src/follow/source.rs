//! The sessions that run on this node for tools of other nodes.
//!
//! In: sessions that begin, their lines, messages of the nodes that follow them, time. Out:
//! numbered messages, room for further lines, sessions to close. A session is closed when its node
//! says so, leaves its name out of two lists in a row, goes from the members, or is silent for the
//! lease.

use super::message::{FollowId, FollowMessage};
use super::{LEASE, MAX_LINE, WINDOW};
use crate::bus::membership::Membership;
use monitor_model::Ns;
use std::collections::{BTreeMap, VecDeque};

/// Number of sessions that run here for other nodes.
const MAX_SOURCES: usize = 1024;
/// Lists without a session after which it is closed: the first may be from before it began.
const UNLISTED: u32 = 2;

/// A session: the node that follows it, and its id there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    /// The node, as the bus vouches for it.
    pub origin: String,
    /// The id.
    pub id: FollowId,
}

/// What is to be done for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceOutput {
    /// Send a message to a node.
    Send(String, FollowMessage),
    /// Close a session; its node does not follow it.
    Close(SourceKey),
    /// This number of bytes of a session was handled: there is room for further ones.
    Room(SourceKey, usize),
}

/// The sessions.
#[derive(Default)]
pub struct FollowSources {
    all: BTreeMap<SourceKey, RunningSource>,
}

struct RunningSource {
    /// The number of the next line.
    next: u64,
    /// What is under way: the number of the line after it, and its bytes.
    under_way: VecDeque<(u64, usize)>,
    /// When its node last listed it.
    listed: Ns,
    /// Lists since then, without it.
    n_unlisted: u32,
}

impl FollowSources {
    /// Whether no session runs.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Begins a session.
    ///
    /// # Errors
    /// Too many run, or the node follows one with this id already.
    pub fn open(&mut self, now: Ns, key: SourceKey) -> Result<(), String> {
        if self.all.contains_key(&key) {
            return Err("a session with this id runs already".to_owned());
        }
        if self.all.len() >= MAX_SOURCES {
            return Err(format!("{MAX_SOURCES} sessions of other nodes run here"));
        }
        let source =
            RunningSource { next: 0, under_way: VecDeque::new(), listed: now, n_unlisted: 0 };
        self.all.insert(key, source);
        Ok(())
    }

    /// The message with the next lines of a session, each with its end; `None` if it was closed.
    /// A text that is too long is one line.
    pub fn lines(&mut self, key: &SourceKey, text: Vec<u8>) -> Option<FollowMessage> {
        let source = self.all.get_mut(key)?;
        let (id, first, bytes) = (key.id, source.next, text.len());
        let n = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        source.next += n;
        source.under_way.push_back((source.next, bytes.min(WINDOW)));
        Some(match bytes {
            0..=MAX_LINE => FollowMessage::Lines { id, first, n, text },
            _ => FollowMessage::TooLong { id, seq: first, bytes: bytes as u64 },
        })
    }

    /// The message that a session has ended by itself; `None` if it was closed.
    pub fn ended(&mut self, key: &SourceKey, why: String) -> Option<FollowMessage> {
        let source = self.all.remove(key)?;
        Some(FollowMessage::Ended { id: key.id, next: Some(source.next), why })
    }

    /// Handles a message of a node that follows sessions.
    pub fn message(&mut self, now: Ns, from: &str, message: FollowMessage) -> Vec<SourceOutput> {
        let key = |id| SourceKey { origin: from.to_owned(), id };
        match message {
            FollowMessage::Keep { follows } => self.keep(now, from, &follows),
            FollowMessage::Handled { id, next } => {
                self.handled(&key(id), next).into_iter().collect()
            }
            FollowMessage::Cancel { id } => self.close(key(id)).into_iter().collect(),
            // Those are of the other end.
            FollowMessage::Lines { .. }
            | FollowMessage::TooLong { .. }
            | FollowMessage::Alive { .. }
            | FollowMessage::Ended { .. } => Vec::new(),
        }
    }

    /// Closes the sessions of a node that has gone from the members, or has come again.
    pub fn node_changed(&mut self, node: &str) -> Vec<SourceOutput> {
        self.close_where(|key, _| key.origin == node)
    }

    /// Closes the sessions whose node is no member, or was silent for the lease.
    pub fn tick(&mut self, now: Ns, members: &Membership) -> Vec<SourceOutput> {
        self.close_where(|key, source| {
            now.since(source.listed) > LEASE || members.get(&key.origin).is_none()
        })
    }

    fn keep(&mut self, now: Ns, from: &str, follows: &[(FollowId, u64)]) -> Vec<SourceOutput> {
        let mut out = Vec::new();
        for (id, next) in follows {
            let key = SourceKey { origin: from.to_owned(), id: *id };
            out.extend(self.handled(&key, *next));
            let id = *id;
            let answer = match self.all.get_mut(&key) {
                Some(source) => {
                    (source.listed, source.n_unlisted) = (now, 0);
                    FollowMessage::Alive { id, next: source.next }
                }
                None => {
                    let why = "the node has no such session".to_owned();
                    FollowMessage::Ended { id, next: None, why }
                }
            };
            out.push(SourceOutput::Send(from.to_owned(), answer));
        }
        let is_listed = |id: &FollowId| follows.iter().any(|it| it.0 == *id);
        for (key, source) in self.all.iter_mut().filter(|(key, _)| key.origin == from) {
            source.n_unlisted += u32::from(!is_listed(&key.id));
        }
        out.extend(self.close_where(|_, source| source.n_unlisted >= UNLISTED));
        out
    }

    fn handled(&mut self, key: &SourceKey, next: u64) -> Option<SourceOutput> {
        let source = self.all.get_mut(key)?;
        let mut freed = 0;
        while let Some((_, bytes)) = source.under_way.pop_front_if(|it| it.0 <= next) {
            freed += bytes;
        }
        (freed > 0).then(|| SourceOutput::Room(key.clone(), freed))
    }

    fn close(&mut self, key: SourceKey) -> Option<SourceOutput> {
        self.all.remove(&key).map(|_| SourceOutput::Close(key))
    }

    fn close_where(
        &mut self,
        is_over: impl Fn(&SourceKey, &RunningSource) -> bool,
    ) -> Vec<SourceOutput> {
        let over = self.all.extract_if(.., |key, source| is_over(key, source));
        over.map(|(key, _)| SourceOutput::Close(key)).collect()
    }
}
