//! The node that we run on.
//!
//! In: which backend shall read. Out: its processes, its facts, what happens on it. The backend is
//! opened when it is first needed: who never asks about a process costs nothing.

mod disk;
mod fact;
mod hands;
mod hold;
mod message;
pub mod recorder;
mod rule;
mod unusual;

use super::fact::{Facts, NodeFacts};
use super::monitors::NoMonitors;
use super::process::Processes;
use super::reading::{self, Reading};
use super::{Act, Acts, By, Calls, Followed, Happening, Happenings, Monitored, Monitors, Recorder};
use hands::Hands;
use monitor_backend::Backend;
use monitor_backends::procfs;
use monitor_backends::select;
use monitor_backends::select::BackendChoice;
use monitor_control::user_worker;
use monitor_event::node_event::{EventKind, FollowedActivity};
use monitor_event::outcome::ProcessResults;
use monitor_event::outcome::Refusal;
use monitor_event::right::Tool;
use monitor_event::tap::Tap;
use monitor_event::thread::{HeldThread, Ticket};
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::read_spec::Capability;
use monitor_model::sample::{BackendKind, Process};
use monitor_omis::Status;
use recorder::{Saving, Service};
use rule::Ruled;
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// How much later a reading may be while a thread waits for actions.
const PUT_OFF: Ns = Ns(1_000_000_000);

/// This node.
pub struct Live {
    choice: BackendChoice,
    reading: Option<Reading<dyn Backend>>,
    /// Before the hands: its programs stop whom these let go.
    ruled: Option<Ruled>,
    hands: Hands,
    /// Why the kernel runs no rules, once it was tried.
    unruled: Option<Refusal>,
    unusuals: unusual::Unusuals,
    /// Files of the flight recorder that are being written, if there is one.
    saving: Option<Saving>,
    /// The way to the monitors of the node.
    monitors: Box<dyn Monitors>,
}

impl Live {
    /// As this backend will see it.
    pub fn new(choice: BackendChoice) -> Self {
        let unusuals = unusual::Unusuals::new(choice);
        let (reading, ruled, unruled, saving) = (None, None, None, None);
        let hands = Hands::new(user_worker::SELF_EXE.into(), recorder::DUMPS.into());
        let monitors = Box::new(NoMonitors);
        Self { choice, reading, hands, ruled, unruled, unusuals, saving, monitors }
    }

    /// With a way to the monitors of the node.
    pub fn with(self, monitors: Box<dyn Monitors>) -> Self {
        Self { monitors, ..self }
    }

    /// The same for the tools of a service.
    pub fn of(choice: BackendChoice, service: Service) -> Self {
        let hands = Hands::new(service.hand.clone(), service.dumps.clone());
        Self { hands, saving: Some(Saving::new(service)), ..Self::new(choice) }
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
    /// The rules of the kernel, or why there are none.
    fn ruled(&mut self) -> Result<&mut Ruled, Refusal> {
        if !matches!(self.choice, BackendChoice::Auto | BackendChoice::Ebpf) {
            let text = "what happens between two readings is seen by eBPF only: see monitor doctor";
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        }
        if let Some(why) = &self.unruled {
            return Err(why.clone());
        }
        if self.ruled.is_none() {
            let opened = Ruled::open().inspect_err(|why| {
                tracing::warn!("events are found between two readings: {why}");
                self.unruled = Some(why.clone());
            });
            self.ruled = Some(opened?);
        }
        Ok(self.ruled.as_mut().expect("it was opened above"))
    }

    /// Tells the hands where the kernel has put probes.
    fn tell_sites(&mut self) {
        if let Some(ruled) = &self.ruled {
            self.hands.know(ruled.sites());
        }
    }

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
        match reading.backend.kind() {
            BackendKind::Ebpf | BackendKind::Procfs => procfs::arguments(id.pid),
            BackendKind::Test | BackendKind::Unsupported => reading.arguments(id),
        }
    }
}

impl Recorder for Live {
    fn save(
        &mut self,
        ticket: Ticket,
        tool: &Tool,
        wanted: (&Path, Option<Ns>),
    ) -> Result<Option<ProcessResults>, Refusal> {
        let Some(saving) = &mut self.saving else {
            let text = "only the service of a node keeps a flight recorder: see monitor serve";
            return Err(Refusal::new(Status::UNSUPPORTED, text));
        };
        let program = saving.begin(ticket, wanted)?;
        let by = By { ticket, tool, held: None };
        let begun = self.hands.act(by, &Act::Start(program), &[]);
        if begun.is_some() {
            saving.give_up(ticket);
        }
        Ok(begun)
    }
}

impl Facts for Live {
    fn node(&mut self) -> Result<NodeFacts, Refusal> {
        let reading = self.reading()?;
        let row = reading.node()?.row;
        Ok(match reading.backend.kind() {
            BackendKind::Ebpf | BackendKind::Procfs => fact::live(&row),
            BackendKind::Test | BackendKind::Unsupported => fact::test(&row),
        })
    }
}

impl Acts for Live {
    fn act(&mut self, by: By<'_>, act: &Act, on: &[Identity]) -> Option<ProcessResults> {
        self.hands.act(by, act, on)
    }

    fn go_on(&mut self, held: &HeldThread) {
        self.hands.go_on(held);
    }

    fn has_stopped(&self, id: Identity) -> bool {
        self.hands.has_stopped(id)
    }

    fn release(&mut self, tool: &Tool) {
        self.hands.release(tool);
        self.monitors.leave(tool.session);
    }
}

impl Calls for Live {
    fn has(&mut self, tap: &Tap, id: Identity) -> Result<(), Refusal> {
        self.ruled()?.has(tap, id)
    }
}

impl Happenings for Live {
    fn can(&mut self, topic: &EventKind) -> Result<(), Refusal> {
        match topic.followed_activity() {
            // Who stops, comes and goes on, or is told by the tools themselves, is always seen.
            None => Ok(()),
            Some(FollowedActivity::Calls | FollowedActivity::Scheduling) => self.ruled().map(drop),
            Some(FollowedActivity::Lifecycle) if self.ruled().is_ok() => Ok(()),
            Some(FollowedActivity::Lifecycle) => self.reading()?.can(topic),
        }
    }

    fn watch(&mut self, topics: &BTreeSet<EventKind>) {
        self.hands.watch(topics);
        let mut left = topics.clone();
        let wants = topics.iter().any(|topic| topic.followed_activity().is_some());
        // Who could not have it was told so when he defined the event.
        let _tried = wants.then(|| self.ruled().is_ok());
        if let Some(ruled) = &mut self.ruled {
            let seen = ruled.watch(topics);
            left.retain(|topic| !seen.contains(topic));
        }
        self.tell_sites();
        // What the kernel does not tell is read.
        left.retain(|topic| topic.followed_activity() == Some(FollowedActivity::Lifecycle));
        if let (false, Ok(reading)) = (left.is_empty(), self.reading()) {
            reading.watch(&left);
        } else if let Some(reading) = &mut self.reading {
            reading.watch(&left);
        }
    }

    fn follow(&mut self, followed: &Followed) {
        if let Some(ruled) = &mut self.ruled {
            ruled.follow(followed);
        }
        self.tell_sites();
    }

    fn wakes(&self) -> Vec<BorrowedFd<'_>> {
        let rules = self.ruled.as_ref().and_then(Ruled::wake);
        [self.hands.wake(), rules, self.monitors.wake()].into_iter().flatten().collect()
    }

    fn due(&self) -> Option<Ns> {
        let read = self.reading.as_ref().and_then(|it| self.put_off(it.due()?));
        let ruled = self.ruled.as_ref().and_then(Ruled::due);
        let saved = self.saving.as_ref().and_then(Saving::due);
        let held = self.hands.held_due();
        let monitors = self.monitors.due();
        [read, self.hands.due(), ruled, saved, held, monitors].into_iter().flatten().min()
    }

    fn happened(&mut self, now: Ns) -> Vec<Happening> {
        let mut all = self.hands.happened(now);
        if let Some(saving) = &mut self.saving {
            all = saving.happened(all, now);
        }
        all.extend(self.ruled.as_mut().map(|it| it.happened(now)).unwrap_or_default());
        all.extend(self.held(now));
        let due = self.reading.as_ref().and_then(|it| self.put_off(it.due()?));
        if let Some(reading) = self.reading.as_mut().filter(|_| due.is_some_and(|due| due <= now)) {
            all.extend(reading.happened(now));
        }
        all.extend(self.monitors.told(now));
        all
    }
}

impl Monitored for Live {
    fn monitors(&mut self) -> &mut dyn Monitors {
        &mut *self.monitors
    }
}
