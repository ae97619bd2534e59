//! The session of a tool on one node: its identity, dialect, scope and process numbers.
//!
//! A tool has a session on each node that it has sent a request to.

pub mod number;
pub mod scope;

use monitor_event::{EventKind, NodeEvent, Refusal, Right, Tool};
use monitor_model::{Identity, Process};
use monitor_omis::{Dialect, Status, Value};
use number::ProcessNumbers;
use scope::Scope;
use std::path::PathBuf;

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
        }
    }

    /// Adds a process to the scope.
    pub fn attach(&mut self, id: Identity) {
        let _ = self.numbers.assign(id);
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
        self.tool.may(right, &it)?;
        Ok(it)
    }

    /// Whether its tool may see the parameters of an event: data from inside a process is for tools
    /// that may read the process.
    pub fn may_see(&self, it: &NodeEvent) -> bool {
        !it.kind.reads_process()
            || self
                .tool
                .restricted_to()
                .is_none_or(|credentials| it.credentials == Some(credentials))
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
