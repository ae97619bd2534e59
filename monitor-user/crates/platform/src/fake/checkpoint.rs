//! What a script says about CRIU, and the actions that it defers.
//!
//! `criu 4.1` sets the version of CRIU, `tie 7 is connected to 10.0.0.1:80` blocks the dump of a
//! process. After `criu waits`, dumps and restores are started only; `criu goes on` completes them,
//! `criu fails` refuses them, and `criu is lost` reports that their user worker has ended.

use crate::ProcessAction;
use monitor_event::{outcome::Refusal, thread::Ticket};
use monitor_model::Identity;
use monitor_omis::{Status, Value};
use std::collections::BTreeMap;

/// What there is of CRIU, and what is in its way.
#[derive(Default)]
pub struct FakeCheckpoints {
    version: Option<String>,
    blockers: BTreeMap<u32, String>,
    /// How many were restored.
    pub(super) n_restored: u64,
    /// What was begun; nothing, if all is done at once.
    pub(super) started: Option<Vec<(Ticket, ProcessAction, Vec<Identity>)>>,
}

impl FakeCheckpoints {
    /// Whether it was a line about these.
    pub fn apply(&mut self, line: &str) -> bool {
        match line.split_once(' ') {
            Some(("criu", "waits")) => self.started = Some(Vec::new()),
            Some(("criu", version)) => self.version = Some(version.to_owned()),
            Some(("tie", rest)) => {
                let Some((pid, tie)) = rest.split_once(' ') else { return false };
                let Ok(pid) = pid.parse() else { return false };
                let _before = self.blockers.insert(pid, format!("process {pid} {tie}"));
            }
            _ => return false,
        }
        true
    }

    /// The version of CRIU, unless something blocks the process.
    pub(super) fn check(&self, id: Identity) -> Result<Vec<Value>, Refusal> {
        let refused = |text: &str| Refusal::new(Status::UNSUPPORTED, text);
        let none = || refused("CRIU is not installed");
        let version = self.version.as_deref().ok_or_else(none)?;
        match self.blockers.get(&id.pid.0) {
            Some(tie) => Err(refused(tie)),
            None => Ok(vec![Value::from(version)]),
        }
    }
}
