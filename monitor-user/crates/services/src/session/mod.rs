//! The session of a tool on one node: its identity, dialect, scope and process numbers.
//!
//! A tool has a session on each node that it has sent a request to.

pub mod awaited_job;
pub mod number;
pub mod scope;

use monitor_event::{EventKind, EventParam, NodeEvent, Refusal, Right, Tool};
use monitor_model::{Identity, Process, id::is_same};
use monitor_omis::{Dialect, Status, Value};
use number::ProcessNumbers;
use scope::Scope;
use std::{collections::BTreeSet, path::PathBuf};

/// The session of a tool on this node.
#[derive(Debug)]
pub struct Session {
    /// The tool's identity and rights.
    pub tool: Tool,
    /// The dialect of its requests.
    pub dialect: Dialect,
    /// The attached processes.
    pub scope: Scope,
    /// The numbers of processes.
    pub numbers: ProcessNumbers,
    /// Options for programs that it starts.
    pub start_options: StartOptions,
    /// The attached processes that the tool observes in full, if it does not observe all.
    in_full: BTreeSet<Identity>,
}

/// Options for programs that a session starts on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartOptions {
    /// The folder; `/` if `None`.
    pub folder: Option<PathBuf>,
    /// All variables; those of the user worker if `None`.
    pub environment: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// The files for input, output and errors; /dev/null for `None`.
    pub streams: [Option<PathBuf>; 3],
}

impl Session {
    /// A session without attached processes.
    pub fn new(tool: Tool, dialect: Dialect) -> Self {
        Self {
            tool,
            dialect,
            scope: Scope::default(),
            numbers: ProcessNumbers::default(),
            start_options: StartOptions::default(),
            in_full: BTreeSet::new(),
        }
    }

    /// Adds a process to the scope.
    pub fn attach(&mut self, id: Identity) {
        let _ = self.numbers.assign(id);
        self.scope.attach(id);
    }

    /// Adds a process that the tool has named by its pid.
    pub fn attach_by_pid(&mut self, id: Identity) {
        self.numbers.assign_pid(id);
        self.scope.attach(id);
    }

    /// The process as it is now.
    ///
    /// # Errors
    /// If it has ended, is not attached, or the tool lacks the right.
    pub fn admit(
        &mut self,
        id: Identity,
        seen: Option<Process>,
        right: Right,
    ) -> Result<Process, Refusal> {
        let number = self.numbers.assign(id);
        let Some(it) = seen.filter(|it| monitor_model::id::is_same(it.id, id) && !it.ended())
        else {
            return Err(Refusal::new(Status::GONE, format!("process {number} has ended")));
        };
        if !self.scope.has(id) {
            return Err(self.not_attached(&it, &Value::from(number)));
        }
        self.note_visibility(&it);
        self.tool.may(right, &it)?;
        Ok(it)
    }

    /// Whether its tool may see an event: what a process does is for tools that observe it in
    /// full, and data from inside it for tools that may read it.
    pub fn may_see(&self, it: &NodeEvent) -> bool {
        let may_read = |viewer| it.credentials == Some(viewer);
        if it.kind.is_of_process() {
            return match (self.tool.visibility.credentials(), it.is_checked) {
                (None, _) => true,
                (Some(viewer), true) => may_read(viewer),
                // From two readings, or an action of a tool.
                (Some(_), false) => it.process.is_some_and(|id| self.is_in_full(id)),
            };
        }
        !it.kind.reads_process() || self.tool.restricted_to().is_none_or(may_read)
    }

    /// The parameters of an event, without those about other processes that its tool may not see.
    pub fn shown_params(&self, it: &NodeEvent) -> Vec<EventParam> {
        let is_restricted = self.tool.visibility.credentials().is_some();
        let is_hidden = |param: &EventParam| match param {
            EventParam::Process(id) => it.kind == EventKind::Scheduled && Some(*id) != it.process,
            _ => false,
        };
        let shown = |param: &EventParam| match is_restricted && is_hidden(param) {
            true => EventParam::Value((-1).into()),
            false => param.clone(),
        };
        it.params.iter().map(shown).collect()
    }

    /// Notes whether its tool observes a process in full.
    pub fn note_visibility(&mut self, it: &Process) {
        if self.tool.visibility.credentials().is_none() {
            return;
        }
        if self.tool.visibility.shows_all_of(it) {
            let _is_new = self.in_full.insert(it.id);
        } else {
            self.in_full.retain(|id| !is_same(*id, it.id));
        }
    }

    /// Notes a child that is attached with its parent, whose credentials it has.
    pub fn note_child(&mut self, child: Identity, parent: Option<Identity>) {
        if parent.is_some_and(|parent| self.is_in_full(parent)) {
            let _is_new = self.in_full.insert(child);
            let scope = &self.scope;
            self.in_full.retain(|id| scope.has(*id));
        }
    }

    /// Forgets a process that has ended.
    pub fn forget(&mut self, id: Identity) {
        self.in_full.retain(|it| !is_same(*it, id));
    }

    fn is_in_full(&self, id: Identity) -> bool {
        self.scope.has(id) && self.in_full.iter().any(|it| is_same(*it, id))
    }

    /// Whether the creation of this process was reported already, because it joined before
    /// creations were followed.
    pub fn was_reported(&self, it: &NodeEvent) -> bool {
        it.kind == EventKind::Created && it.process.is_some_and(|id| self.scope.was_reported(id))
    }

    /// The refusal for a process that exists and is not attached.
    pub fn not_attached(&self, it: &Process, named: &Value) -> Refusal {
        let comm = it.comm();
        let text = format!("process {named} ({comm}) is not attached: call attach([{named}])");
        Refusal::new(Status::NOT_ATTACHED, text)
    }
}
