//! Actions on processes that do not exist: results that are the same on every machine.
//!
//! Memory at an address holds its lowest byte, a register its own number, until they are written. A
//! thread plan is done when time advances; a breakpoint is hit each time that it does.

use super::{PlatformEvent, ProcessAction, events::process_event};
use monitor_control::{FrameNames, LoadedImage, StackFrame, ThreadEntry, WorkerReply};
use monitor_event::node_event::{EventKind, NodeEvent};
use monitor_event::thread::{CallEnd, Catch, HeldThread, RunControl, RunControlRequest, Target};
use monitor_event::{outcome::EventParam, right::SessionId};
use monitor_model::{Identity, Ns};
use monitor_omis::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What was written, and what is out.
#[derive(Default)]
pub struct FakeProcesses {
    memory: BTreeMap<(Identity, u64), u8>,
    integers: BTreeMap<(Identity, u16), u64>,
    floats: BTreeMap<(Identity, u16), f64>,
    plans: BTreeMap<RunControlRequest, bool>,
    /// How many times threads of each process were stopped one by one.
    thread_stops: BTreeMap<Identity, u64>,
    /// The tools that hold each stopped process.
    stopped: BTreeMap<Identity, BTreeSet<SessionId>>,
    /// Reports of plans that have begun.
    begun: Vec<PlatformEvent>,
    pending: Vec<PlatformEvent>,
}

const PC: u16 = 16;

impl FakeProcesses {
    /// The result of an action inside a process; nothing, if it is done to the process as a whole.
    pub fn perform(&mut self, action: &ProcessAction, id: Identity) -> Option<WorkerReply> {
        Some(match action {
            ProcessAction::Read(address, bytes) => {
                let byte = |at: u64| self.memory.get(&(id, at)).copied().unwrap_or(lowest(at));
                WorkerReply::Bytes((*address..address + bytes).map(byte).collect())
            }
            ProcessAction::Write(address, bytes) => {
                let places = (*address..).zip(bytes).map(|(at, byte)| ((id, at), *byte));
                self.memory.extend(places);
                WorkerReply::Done
            }
            ProcessAction::Integers(first, count) => WorkerReply::Integers(
                (*first..first + count).map(|number| self.integer(id, number)).collect(),
            ),
            ProcessAction::SetIntegers(first, values) => {
                self.integers.extend((*first..).zip(values).map(|(it, value)| ((id, it), *value)));
                WorkerReply::Done
            }
            ProcessAction::Floats(first, count) => {
                let float = |it: u16| self.floats.get(&(id, it)).copied().unwrap_or(f64::from(it));
                WorkerReply::Floats((*first..first + count).map(float).collect())
            }
            ProcessAction::SetFloats(first, values) => {
                self.floats.extend((*first..).zip(values).map(|(it, value)| ((id, it), *value)));
                WorkerReply::Done
            }
            ProcessAction::ReadImage(_, most) => {
                let bytes = (1..=4_u8).take(usize::try_from(*most).unwrap_or(usize::MAX));
                WorkerReply::Bytes(bytes.collect())
            }
            ProcessAction::ReadSignalInfo => WorkerReply::Bytes(vec![10, 0, 0, 0]),
            ProcessAction::AuxiliaryVector => WorkerReply::Bytes(vec![0; 16]),
            ProcessAction::ListThreads => {
                let name = b"test".to_vec();
                WorkerReply::Threads(vec![ThreadEntry { tid: id.pid.0, name }])
            }
            ProcessAction::StopThreads(_) => {
                let number = self.thread_stops.entry(id).or_insert(0);
                *number += 1;
                WorkerReply::ThreadsStopped(*number)
            }
            ProcessAction::WriteImage(..)
            | ProcessAction::ContinueThreads(..)
            | ProcessAction::SetSignal(_) => WorkerReply::Done,
            ProcessAction::Goto(address) => {
                let _before = self.integers.insert((id, PC), *address);
                WorkerReply::Done
            }
            ProcessAction::Backtrace(names) => WorkerReply::Frames(frames(*names)),
            ProcessAction::Loader => WorkerReply::Images(vec![image()]),
            _ => return None,
        })
    }

    /// A tool stops a process.
    pub fn stop(&mut self, tool: SessionId, id: Identity) {
        let is_first = !self.has_stopped(id);
        self.start_stopped(tool, id);
        if is_first {
            self.pending.push(PlatformEvent::Event(process_event(
                EventKind::Stopped,
                Ns(0),
                id,
                None,
            )));
        }
    }

    /// A tool has started a process, which has not run.
    pub fn start_stopped(&mut self, tool: SessionId, id: Identity) {
        let _new = self.stopped.entry(id).or_default().insert(tool);
    }

    /// A tool continues a process; whether it had stopped it.
    pub fn resume(&mut self, tool: SessionId, id: Identity) -> bool {
        let Some(holders) = self.stopped.get_mut(&id) else { return false };
        let was_held = holders.remove(&tool);
        if was_held && holders.is_empty() {
            let _ended = self.stopped.remove(&id);
            self.pending.push(PlatformEvent::Event(process_event(
                EventKind::Continued,
                Ns(0),
                id,
                None,
            )));
        }
        was_held
    }

    /// The processes that a tool has stopped.
    pub fn stopped_by(&self, tool: SessionId) -> Vec<Identity> {
        let held = self.stopped.iter().filter(|(_, holders)| holders.contains(&tool));
        held.map(|(id, _)| *id).collect()
    }

    /// Whether the process is stopped.
    pub fn has_stopped(&self, id: Identity) -> bool {
        self.stopped.contains_key(&id)
    }

    /// The thread plans of these events are active from now on.
    pub fn set_events(&mut self, topics: &BTreeSet<EventKind>) {
        let sent = topics.iter().filter_map(|topic| match topic {
            EventKind::RunControl(sent) => Some(sent.clone()),
            _ => None,
        });
        let is_done = |sent: &RunControlRequest| self.plans.get(sent).copied().unwrap_or(false);
        let plans: BTreeMap<_, _> = sent.map(|sent| (sent.clone(), is_done(&sent))).collect();
        let new = plans.keys().filter(|sent| !self.plans.contains_key(sent));
        self.begun.extend(new.map(|sent| {
            let each = sent.processes.iter().map(|id| (*id, Ok(Vec::new()))).collect();
            PlatformEvent::ActionDone(sent.ticket, each)
        }));
        self.plans = plans;
    }

    /// The plans that have begun since, which a real platform reports at once.
    pub fn take_begun(&mut self) -> Vec<PlatformEvent> {
        std::mem::take(&mut self.begun)
    }

    /// What has happened since.
    pub fn poll_events(&mut self) -> Vec<PlatformEvent> {
        let mut all = self.take_begun();
        all.append(&mut self.pending);
        let out: Vec<RunControlRequest> =
            self.plans.iter().filter(|(_, done)| !**done).map(|(it, _)| it.clone()).collect();
        for sent in out {
            all.extend(
                sent.processes.iter().map(|id| PlatformEvent::Event(self.completed(&sent, *id))),
            );
            if let Some(done) = self.plans.get_mut(&sent) {
                *done = !sent.command.is_repeated();
            }
        }
        all
    }

    fn completed(&self, sent: &RunControlRequest, id: Identity) -> NodeEvent {
        let pc = self.integer(id, PC);
        let (pc, rest) = match &sent.command {
            RunControl::Watch(_) => (pc, Vec::new()),
            RunControl::Break(address, _) => (*address, Vec::new()),
            RunControl::Step | RunControl::Next => (pc + 1, Vec::new()),
            RunControl::Finish => (pc, vec![Value::from(0)]),
            RunControl::Catch(what) => (pc, caught(what)),
            RunControl::Call(_, arguments) => {
                let count = u64::try_from(arguments.len()).unwrap_or(0);
                (pc, vec![Value::from(count), Value::from(0.0)])
            }
        };
        let rest = rest.into_iter().map(EventParam::Value);
        let (tool, target) = (sent.tool, Target::from(id));
        let ticket = sent.ticket;
        let held = HeldThread { ticket, tool, target, with_process: false, number: 0 };
        NodeEvent {
            thread: Some(id.pid),
            pc: Some(pc),
            held: Some(held),
            ..process_event(EventKind::RunControl(sent.clone()), Ns(0), id, rest)
        }
    }

    fn integer(&self, id: Identity, number: u16) -> u64 {
        self.integers.get(&(id, number)).copied().unwrap_or(u64::from(number))
    }
}

/// What the event has besides the process.
fn caught(what: &Catch) -> Vec<Value> {
    match what {
        Catch::Signals(signals) => vec![signals.first().copied().unwrap_or(10).into()],
        Catch::SystemCalls(end, numbers) => {
            let number = Value::from(numbers.first().copied().unwrap_or(39));
            let result = (*end == CallEnd::Return).then(|| Value::from(7));
            [Some(number), result].into_iter().flatten().collect()
        }
        Catch::Exec => Vec::new(),
    }
}

fn lowest(address: u64) -> u8 {
    address.to_le_bytes()[0]
}

fn frames(names: FrameNames) -> Vec<StackFrame> {
    let named = |name: &str| (names == FrameNames::With).then(|| name.to_owned());
    let frame = |pc, cfa, name| StackFrame { pc, cfa, name: named(name) };
    vec![frame(0x1000, 0x2000, "work"), frame(0x1040, 0x2020, "main")]
}

fn image() -> LoadedImage {
    LoadedImage {
        path: b"/bin/a".to_vec(),
        code: (0x1000, 256),
        data: (0x2000, 64),
        bss: (0x2040, 32),
        build_id: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_model::Pid;

    #[test]
    fn a_process_continues_with_the_identity_that_it_stopped_with() {
        // Between two ticks.
        let id = Identity { pid: Pid(7), start: Ns(1_000_000_001) };
        let (tool, mut processes) = (SessionId::default(), FakeProcesses::default());
        processes.stop(tool, id);
        assert!(processes.resume(tool, id));
        let targets = processes.poll_events().into_iter().map(|event| match event {
            PlatformEvent::Event(NodeEvent { process, .. }) => process,
            other => panic!("{other:?}"),
        });
        assert_eq!(targets.collect::<Vec<_>>(), [Some(id), Some(id)]);
    }
}
