//! What a light agent sends to those that follow it: a row again and again, numbered.
//!
//! In: commands that begin a session, messages of those that follow, time. Out: rows on the bus, as
//! a service sends the samples of a series. A session that has no room drops its row, and counts
//! that in the next one.

use monitor_cluster::bus::Bus;
use monitor_cluster::bus::membership::Membership;
use monitor_cluster::command::{Execution, ExecutionResult};
use monitor_cluster::follow::message::{FollowMessage, FollowRequest};
use monitor_cluster::follow::source::{FollowSources, SourceKey, SourceOutput};
use monitor_cluster::follow::{KEEP, WINDOW};
use monitor_model::Ns;
use monitor_sys::clock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// The result of a command that began a session.
const BEGUN: &[u8] = br#"{"reply":""}"#;

/// The rows of an agent.
#[derive(Clone)]
pub struct AgentRows {
    /// Time between two rows.
    pub every: Duration,
    /// What is in each of them.
    pub text: String,
}

/// A row, as a line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRow {
    /// Its number in the session, from 0; those that were dropped have one too.
    pub number: u64,
    /// When it was sent, on the boot clock.
    pub sent_ns: u64,
    /// What is in it.
    pub text: String,
}

/// The sessions of an agent.
pub struct RowSources {
    rows: AgentRows,
    sources: FollowSources,
    running: BTreeMap<SourceKey, RunningRows>,
    /// When the next row is sent.
    next: Ns,
    /// By how much the rows of this agent are later than those of others.
    phase: u64,
    checked: Ns,
}

/// A session: the number of its next row, and its room in bytes.
struct RunningRows {
    number: u64,
    room: usize,
}

impl RowSources {
    /// No session runs. Agents send at different times.
    pub fn new(node: &str, rows: AgentRows) -> Self {
        let mut hasher = DefaultHasher::new();
        node.hash(&mut hasher);
        let phase = hasher.finish() % nanos(rows.every).max(1);
        let (sources, running) = (FollowSources::default(), BTreeMap::new());
        Self { rows, sources, running, next: Ns(0), phase, checked: Ns(0) }
    }

    /// When rows are to be sent; `None` without a session.
    pub fn due(&self) -> Option<Ns> {
        (!self.running.is_empty()).then_some(self.next)
    }

    /// Begins a session, if the command is for one.
    pub fn open(&mut self, execution: &Execution) -> Option<ExecutionResult> {
        let request = match FollowRequest::from_payload(&execution.payload)? {
            Ok(request) => request,
            Err(why) => return Some(ExecutionResult::Refused(why)),
        };
        let key = SourceKey { origin: execution.origin.clone(), id: request.id };
        let now = clock::boot();
        Some(match self.sources.open(now, key.clone()) {
            Ok(()) => {
                if self.running.is_empty() {
                    self.next = Ns(now.0 + self.phase);
                }
                self.running.insert(key, RunningRows { number: 0, room: WINDOW });
                ExecutionResult::Executed(BEGUN.to_vec())
            }
            Err(why) => ExecutionResult::Refused(why),
        })
    }

    /// Handles a message of a node that follows.
    pub fn message(&mut self, from: &str, bytes: &[u8], bus: &mut dyn Bus) {
        match FollowMessage::from_bytes(bytes) {
            Ok(message) => {
                let outputs = self.sources.message(clock::boot(), from, message);
                self.carry_out(outputs, bus);
            }
            Err(why) => tracing::warn!("message of {from}: {why}"),
        }
    }

    /// Sends a row to each that follows, and ends the sessions of nodes that are gone.
    pub fn send(&mut self, members: &Membership, bus: &mut dyn Bus) {
        let now = clock::boot();
        self.next = Ns(self.next.0 + nanos(self.rows.every)).max(now);
        for (key, running) in &mut self.running {
            let row =
                AgentRow { number: running.number, sent_ns: now.0, text: self.rows.text.clone() };
            running.number += 1;
            // Plain data has a form in JSON.
            let mut line = serde_json::to_vec(&row).unwrap_or_default();
            line.push(b'\n');
            let Some(room) = running.room.checked_sub(line.len()) else { continue };
            running.room = room;
            if let Some(message) = self.sources.lines(key, line) {
                bus.send(&key.origin, message.to_bytes());
            }
        }
        if now.since(self.checked) >= KEEP {
            self.checked = now;
            let outputs = self.sources.tick(now, members);
            self.carry_out(outputs, bus);
        }
    }

    fn carry_out(&mut self, outputs: Vec<SourceOutput>, bus: &mut dyn Bus) {
        for output in outputs {
            match output {
                SourceOutput::Send(to, message) => bus.send(&to, message.to_bytes()),
                SourceOutput::Close(key) => drop(self.running.remove(&key)),
                SourceOutput::Room(key, bytes) => {
                    if let Some(running) = self.running.get_mut(&key) {
                        running.room += bytes;
                    }
                }
            }
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
