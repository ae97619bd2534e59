//! The node that we run on.
//!
//! In: a backend. Out: its processes, its facts, what happens on it. Acts come with `control`.

mod fact;
mod message;

use super::act::Each;
use super::fact::{Facts, NodeFacts};
use super::process::Processes;
use super::reading::Reading;
use super::{Act, Acts, Happening, Happenings, Ticket};
use crate::backend::{Backend, procfs};
use crate::model::id::{Identity, Ns, Pid};
use crate::model::sample::{Process, Source};
use crate::omis::Status;
use crate::service::desk::Topic;
use crate::service::outcome::Refusal;
use crate::service::session::right::Tool;
use std::collections::BTreeSet;

/// This node.
pub struct Live {
    reading: Reading<dyn Backend>,
}

impl Live {
    /// As this backend sees it.
    pub fn new(backend: Box<dyn Backend>) -> Self {
        Self { reading: Reading::new(backend) }
    }
}

impl Processes for Live {
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
        match self.reading.backend.source() {
            Source::Ebpf | Source::Procfs => procfs::arguments(id.pid),
            Source::Test | Source::Unsupported => {
                let mut it = [Process { id, ..Process::default() }];
                self.reading.describe(&mut it);
                let line = it[0].text.cmdline.as_deref()?;
                Some(line.split(' ').map(|word| word.as_bytes().to_vec()).collect())
            }
        }
    }
}

impl Facts for Live {
    fn node(&mut self) -> Result<NodeFacts, Refusal> {
        let row = self.reading.node()?.row;
        Ok(match self.reading.backend.source() {
            Source::Ebpf | Source::Procfs => fact::live(&row),
            Source::Test | Source::Unsupported => fact::test(&row),
        })
    }
}

impl Acts for Live {
    fn act(&mut self, _: Ticket, _: &Tool, _: &Act, on: &[Identity]) -> Option<Each> {
        let refusal = || Refusal::new(Status::UNSUPPORTED, "this build does not act on processes");
        Some(on.iter().map(|id| (*id, Err(refusal()))).collect())
    }

    fn release(&mut self, _: &Tool) {}
}

impl Happenings for Live {
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
