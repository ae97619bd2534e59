//! A node that a text describes, for cases that are text: nothing happens but what it says.
//!
//! In: lines of a script (`backend/canned/script.rs`), one by one. Out: the same processes, facts
//! and happenings on every machine. Acts change the script's world as the system would change ours,
//! as far as a state and a nice value go.

use super::act::Each;
use super::fact::{Facts, NodeFacts};
use super::process::Processes;
use super::reading::Reading;
use super::{Act, Acts, Happening, Happenings, Ticket};
use crate::backend::canned::{Canned, Malformed};
use crate::model::field::NodeField;
use crate::model::id::{Identity, Ns, Pid};
use crate::model::sample::Process;
use crate::omis::Status;
use crate::service::desk::Topic;
use crate::service::outcome::Refusal;
use crate::service::session::right::Tool;
use std::collections::BTreeSet;

/// The node.
pub struct Scripted {
    reading: Reading<Canned>,
}

impl Scripted {
    /// A node of that name, with nobody on it.
    pub fn new(name: &str) -> Result<Self, Malformed> {
        let backend = Canned::scripted(&format!("host {name}\nevery 0ms"))?;
        Ok(Self { reading: Reading::new(Box::new(backend)) })
    }

    /// Lets something happen.
    pub fn happen(&mut self, line: &str) -> Result<(), Malformed> {
        self.reading.backend.happen(line)
    }

    /// Lets time pass.
    pub fn pass(&mut self, to: Ns) {
        self.reading.backend.pass(to);
    }

    fn act_on(&mut self, act: &Act, id: Identity) -> Result<(), Refusal> {
        let pid = id.pid.0;
        let line = match act {
            Act::Stop => format!("process {pid} state=T"),
            Act::Continue => format!("process {pid} state=S"),
            Act::Nice(nice) => format!("process {pid} nice={nice}"),
            Act::Kill(9 | 15) => format!("end {pid} exit_code={}", exit_code(act)),
            Act::Kill(_) => return Ok(()),
        };
        let refused = |why: Malformed| Refusal::new(Status::INTERNAL, why.to_string());
        self.happen(&line).map_err(refused)
    }
}

fn exit_code(act: &Act) -> i32 {
    match act {
        Act::Kill(signal) => 128 + signal,
        _ => 0,
    }
}

impl Processes for Scripted {
    fn look(&mut self, pids: &[Pid]) -> Result<Vec<Process>, Refusal> {
        self.reading.look(pids)
    }

    fn everybody(&mut self) -> Result<Vec<Process>, Refusal> {
        self.reading.everybody()
    }

    fn describe(&mut self, processes: &mut [Process]) {
        self.reading.describe(processes);
    }

    fn arguments(&mut self, id: Identity) -> Option<Vec<Vec<u8>>> {
        let mut it = self.reading.look(&[id.pid]).ok()?;
        self.reading.describe(&mut it);
        let line = it.first()?.text.cmdline.clone()?;
        Some(line.split(' ').map(|word| word.as_bytes().to_vec()).collect())
    }
}

impl Facts for Scripted {
    fn node(&mut self) -> Result<NodeFacts, Refusal> {
        let row = self.reading.node()?.row;
        Ok(NodeFacts {
            architecture: "test".to_owned(),
            cpus: row.get(NodeField::Cpus),
            avail_memory: row.get(NodeField::MemAvailable),
            ..NodeFacts::default()
        })
    }
}

impl Acts for Scripted {
    fn act(&mut self, _: Ticket, _: &Tool, act: &Act, on: &[Identity]) -> Option<Each> {
        Some(on.iter().map(|id| (*id, self.act_on(act, *id).map(|()| Vec::new()))).collect())
    }

    fn release(&mut self, _: &Tool) {}
}

impl Happenings for Scripted {
    fn can(&self, topic: &Topic) -> Result<(), Refusal> {
        self.reading.can(topic)
    }

    fn watch(&mut self, topics: &BTreeSet<Topic>) {
        self.reading.watch(topics);
    }

    fn happened(&mut self, _: Ns) -> Vec<Happening> {
        self.reading.happened()
    }
}
