//! The node that we run on.
//!
//! In: which backend shall read. Out: its processes, its facts, what happens on it. The backend is
//! opened when it is first needed: who never asks about a process costs nothing.

mod call;
mod fact;
mod hands;
mod message;
mod order;
mod unusual;

use super::act::Each;
use super::fact::{Facts, NodeFacts};
use super::process::Processes;
use super::reading::{self, Reading};
use super::{Act, Acts, Happening, Happenings, HeldThread, Ticket};
use crate::backend::select::{self, Choice};
use crate::backend::{Backend, procfs};
use crate::model::id::{Identity, Ns, Pid};
use crate::model::sample::{Process, Source};
use crate::model::want::Capability;
use crate::service::desk::Topic;
use crate::service::outcome::Refusal;
use crate::service::session::right::Tool;
use hands::Hands;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

/// How much later a reading may be while a thread waits for actions.
const PUT_OFF: Ns = Ns(1_000_000_000);

/// This node.
pub struct Live {
    choice: Choice,
    reading: Option<Reading<dyn Backend>>,
    hands: Hands,
    calls: call::Listening,
    unusuals: unusual::Unusuals,
}

impl Live {
    /// As this backend will see it.
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            reading: None,
            hands: Hands::default(),
            calls: call::Listening::default(),
            unusuals: unusual::Unusuals::new(choice),
        }
    }

    fn reading(&mut self) -> Result<&mut Reading<dyn Backend>, Refusal> {
        if self.reading.is_none() {
            let opened = select::open(self.choice, &[Capability::Snapshot], 0);
            let (backend, notes) = opened.map_err(reading::failed)?;
            for note in notes {
                tracing::warn!("requests: {}", note.text);
            }
            self.reading = Some(Reading::new(backend));
        }
        Ok(self.reading.as_mut().expect("it was opened above"))
    }
}

impl Live {
    /// While a thread is held, its actions come before a reading, which takes long from `/proc`.
    fn put_off(&self, due: Ns) -> Option<Ns> {
        let later = if self.hands.holds_any() { PUT_OFF.0 } else { 0 };
        Some(Ns(due.0.saturating_add(later)))
    }
}

impl Processes for Live {
    fn look(&mut self, pids: &[Pid]) -> Result<Vec<Process>, Refusal> {
        self.reading()?.look(pids)
    }

    fn everybody(&mut self) -> Result<Vec<Process>, Refusal> {
        self.reading()?.everybody()
    }

    fn describe(&mut self, processes: &mut [Process]) {
        // Without a backend there is nobody to describe.
        if let Ok(reading) = self.reading() {
            reading.describe(processes);
        }
    }

    fn arguments(&mut self, id: Identity) -> Option<Vec<Vec<u8>>> {
        let reading = self.reading().ok()?;
        match reading.backend.source() {
            Source::Ebpf | Source::Procfs => procfs::arguments(id.pid),
            Source::Test | Source::Unsupported => reading.arguments(id),
        }
    }
}

impl Facts for Live {
    fn node(&mut self) -> Result<NodeFacts, Refusal> {
        let reading = self.reading()?;
        let row = reading.node()?.row;
        Ok(match reading.backend.source() {
            Source::Ebpf | Source::Procfs => fact::live(&row),
            Source::Test | Source::Unsupported => fact::test(&row),
        })
    }
}

impl Acts for Live {
    fn act(&mut self, ticket: Ticket, tool: &Tool, act: &Act, on: &[Identity]) -> Option<Each> {
        self.hands.act(ticket, tool, act, on)
    }

    fn go_on(&mut self, held: &HeldThread) {
        self.hands.go_on(held);
    }

    fn release(&mut self, tool: &Tool) {
        self.hands.release(tool);
    }
}

impl Happenings for Live {
    fn can(&mut self, topic: &Topic) -> Result<(), Refusal> {
        match topic {
            // Whether a function can be watched was seen in the processes that were named.
            Topic::User(_) | Topic::NodeCame | Topic::NodeWent | Topic::Called(_) => Ok(()),
            Topic::Diagnosed(_) => Ok(()),
            Topic::Stopped | Topic::Continued | Topic::Sent(_) => Ok(()),
            _ => self.reading()?.can(topic),
        }
    }

    fn watch(&mut self, topics: &BTreeSet<Topic>) {
        self.hands.watch(topics);
        self.calls.watch(topics, self.choice);
        // Who could not open it was told so when he attached a process.
        if let (false, Ok(reading)) = (topics.is_empty(), self.reading()) {
            reading.watch(topics);
        } else if let Some(reading) = &mut self.reading {
            reading.watch(topics);
        }
    }

    fn follow(&mut self, processes: &BTreeSet<Identity>) {
        self.calls.follow(processes);
    }

    fn wake(&self) -> Option<BorrowedFd<'_>> {
        // Beside a hand, calls are looked for when they are due.
        self.hands.wake().or_else(|| self.calls.wake())
    }

    fn due(&self) -> Option<Ns> {
        let read = self.reading.as_ref().and_then(|it| self.put_off(it.due()?));
        [read, self.hands.due(), self.calls.due()].into_iter().flatten().min()
    }

    fn happened(&mut self, now: Ns) -> Vec<Happening> {
        let mut all = self.hands.happened(now);
        all.extend(self.calls.happened(now));
        let due = self.reading.as_ref().and_then(|it| self.put_off(it.due()?));
        if let Some(reading) = self.reading.as_mut().filter(|_| due.is_some_and(|due| due <= now)) {
            all.extend(reading.happened(now));
        }
        all
    }
}
