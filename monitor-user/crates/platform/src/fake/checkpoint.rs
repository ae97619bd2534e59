//! Processes that leave and come, as a script has them.
//!
//! `criu 4.1` says that there is a CRIU, `tie 7 is connected to 10.0.0.1:80` what is in the way of
//! a process. What is dumped ends, and what is restored has the number that its name begins with.
//! From `criu waits` on, dumps and restores are begun only; `criu goes on` does what waits,
//! `criu fails` refuses it, and `criu is lost` is what is told if its hand has ended.

use crate::ProcessAction;
use monitor_event::outcome::Refusal;
use monitor_event::thread::Ticket;
use monitor_model::id::Identity;
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
