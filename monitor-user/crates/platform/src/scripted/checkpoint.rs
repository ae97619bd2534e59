//! Processes that leave and come, as a script has them.
//!
//! `criu 4.1` says that there is a CRIU, `tie 7 is connected to 10.0.0.1:80` what is in the way of
//! a process. What is dumped ends, and what is restored has the number that its name begins with.
//! From `criu waits` on, dumps and restores are begun only; `criu goes on` does what waits,
//! `criu fails` refuses it, and `criu is lost` is what is told if its hand has ended.

use super::Scripted;
use crate::process::Processes as _;
use crate::{Act, Happening, arrival};
use monitor_backends::canned::BEGINNING;
use monitor_event::outcome::ProcessResults;
use monitor_event::outcome::Refusal;
use monitor_event::thread::Ticket;
use monitor_model::id::{Identity, Pid};
use monitor_omis::{Status, Value};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

/// What there is of CRIU, and what is in its way.
#[derive(Default)]
pub struct Script {
    version: Option<String>,
    ties: BTreeMap<u32, String>,
    /// How many were restored.
    n_restored: u64,
    /// What was begun; nothing, if all is done at once.
    begun: Option<Vec<(Ticket, Act, Vec<Identity>)>>,
}

impl Script {
    /// Whether it was a line about these.
    pub fn take(&mut self, line: &str) -> bool {
        match line.split_once(' ') {
            Some(("criu", "waits")) => self.begun = Some(Vec::new()),
            Some(("criu", version)) => self.version = Some(version.to_owned()),
            Some(("tie", rest)) => {
                let Some((pid, tie)) = rest.split_once(' ') else { return false };
                let Ok(pid) = pid.parse() else { return false };
                let _before = self.ties.insert(pid, format!("process {pid} {tie}"));
            }
            _ => return false,
        }
        true
    }

    fn check(&self, id: Identity) -> Result<Vec<Value>, Refusal> {
        let refused = |text: &str| Refusal::new(Status::UNSUPPORTED, text);
        let none = || refused("CRIU is not installed");
        let version = self.version.as_deref().ok_or_else(none)?;
        match self.ties.get(&id.pid.0) {
            Some(tie) => Err(refused(tie)),
            None => Ok(vec![Value::from(version)]),
        }
    }
}

impl Scripted {
    /// Whether it was a line about what was begun.
    pub(super) fn go_on_with(&mut self, line: &str) -> bool {
        let refused = |status, text: &str| Some(Err(Refusal::new(status, text)));
        let answer = match line {
            "criu goes on" => None,
            "criu fails" => refused(Status::UNSUPPORTED, "the script fails it"),
            "criu is lost" => refused(Status::INTERRUPTED, "the user worker has ended"),
            _ => return false,
        };
        for (ticket, act, on) in self.criu.begun.as_mut().map(std::mem::take).unwrap_or_default() {
            // That it came is heard after the answer.
            let next = self.turned.len();
            let done = || self.checkpoint(&act, &on).unwrap_or_default();
            let each = answer.clone().map_or_else(done, |it| vec![(Identity::default(), it)]);
            self.turned.insert(next, Happening::Acted(ticket, each));
        }
        true
    }

    /// Whether it is begun, and done later.
    pub(super) fn begins(&mut self, ticket: Ticket, act: &Act, on: &[Identity]) -> bool {
        let is_long = matches!(act, Act::Dump(_) | Act::Restore(_) | Act::Return(_));
        let Some(begun) = self.criu.begun.as_mut().filter(|_| is_long) else { return false };
        begun.push((ticket, act.clone(), on.to_vec()));
        true
    }

    /// What becomes of an act on processes that leave or come; nothing, if it is none.
    pub(super) fn checkpoint(&mut self, act: &Act, on: &[Identity]) -> Option<ProcessResults> {
        let nobody = Identity::default();
        Some(match act {
            Act::Checkpoint => vec![(nobody, self.criu.check(nobody))],
            Act::Lossless | Act::Movable => {
                on.iter().map(|id| (*id, self.criu.check(*id))).collect()
            }
            Act::Dump(_) => on.iter().map(|id| (*id, self.dump(*id))).collect(),
            Act::Restore(name) | Act::Return(name) => {
                let restored = self.restore(name);
                if let (Act::Restore(_), Ok(id)) = (act, &restored) {
                    self.turned.push(Happening::Occurred(arrival(*id)));
                }
                let id = *restored.as_ref().unwrap_or(&nobody);
                vec![(id, restored.map(|_| Vec::new()))]
            }
            _ => return None,
        })
    }

    fn dump(&mut self, id: Identity) -> Result<Vec<Value>, Refusal> {
        let line = format!("end {}", id.pid.0);
        let failed = |why: monitor_backends::canned::ScriptError| {
            Refusal::new(Status::INTERNAL, why.to_string())
        };
        self.happen(&line).map(|()| Vec::new()).map_err(failed)
    }

    fn restore(&mut self, name: &str) -> Result<Identity, Refusal> {
        let _version = self.criu.check(Identity::default())?;
        let unknown = || {
            let text = format!("no dump has the name {name:?}");
            Refusal::new(Status::RANGE, text)
        };
        let pid: u32 = name.split_once('-').and_then(|it| it.0.parse().ok()).ok_or_else(unknown)?;
        // Its start is another, although the script's clock stands.
        self.criu.n_restored += 1;
        let start = BEGINNING.boot.0 + SECOND * self.criu.n_restored;
        self.happen(&format!("process {pid} start_time_ns={start}")).map_err(|_| unknown())?;
        self.look(&[Pid(pid)])?.first().map(|it| it.id).ok_or_else(unknown)
    }
}
