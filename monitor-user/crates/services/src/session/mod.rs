//! What is remembered of a tool on one node: who it is, how it speaks, which processes it observes
//! and by which numbers it knows them.
//!
//! A tool that is connected elsewhere has a session on each node that it has sent something to.

pub mod number;
pub mod scope;

use super::process::start::Options;
use monitor_event::occurrence::{EventKind, NodeEvent};
use monitor_event::outcome::Refusal;
use monitor_event::right::Right;
use monitor_event::right::Tool;
use monitor_model::id::Identity;
use monitor_model::sample::Process;
use monitor_omis::{Dialect, Status, Value};
use number::Numbers;
use scope::Scope;

/// A tool on this node.
#[derive(Debug)]
pub struct Session {
    /// Who it is.
    pub tool: Tool,
    /// How it speaks.
    pub dialect: Dialect,
    /// What it observes.
    pub scope: Scope,
    /// How processes are called.
    pub numbers: Numbers,
    /// What programs get that it starts.
    pub start: Options,
}

impl Session {
    /// A tool that observes nothing yet.
    pub fn new(tool: Tool, dialect: Dialect) -> Self {
        Self {
            tool,
            dialect,
            scope: Scope::default(),
            numbers: Numbers::default(),
            start: Options::default(),
        }
    }

    /// Takes a process into the scope.
    pub fn attach(&mut self, id: Identity) {
        let _ = self.numbers.give(id);
        self.scope.attach(id);
    }

    /// The process as it is now, if it is there, observed, and may be served.
    pub fn admit(
        &mut self,
        id: Identity,
        seen: Option<Process>,
        right: Right,
    ) -> Result<Process, Refusal> {
        let number = self.numbers.give(id);
        let Some(it) = seen.filter(|it| monitor_model::id::is_same(it.id, id) && !it.ended())
        else {
            return Err(Refusal::new(Status::GONE, format!("process {number} has ended")));
        };
        if !self.scope.has(id) {
            return Err(self.outside(&it, &Value::from(number)));
        }
        self.tool.may(right, &it)?;
        Ok(it)
    }

    /// Whether its tool may know what an event tells: what a process had in it is for those who
    /// may look into it.
    pub fn may_hear(&self, it: &NodeEvent) -> bool {
        !it.topic.is_within() || self.tool.only().is_none_or(|eyes| it.eyes == Some(eyes))
    }

    /// Whether it was told already: of a process that came before births were looked out for.
    pub fn has_heard(&self, it: &NodeEvent) -> bool {
        it.topic == EventKind::Born && it.process.is_some_and(|id| self.scope.came_late(id))
    }

    /// Why a process that is there is not served.
    pub fn outside(&self, it: &Process, named: &Value) -> Refusal {
        let comm = it.comm();
        let text = format!("process {named} ({comm}) is not attached: call attach([{named}])");
        Refusal::new(Status::NOT_ATTACHED, text)
    }
}
