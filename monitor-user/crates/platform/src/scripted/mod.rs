//! A node that a text describes, for cases that are text: nothing happens but what it says.
//!
//! In: lines of a script (`backend/canned/script.rs`), one by one. Out: the same processes, facts
//! and happenings on every machine. Acts change the script's world as the system would change ours,
//! as far as a state and a nice value go.

mod call;
mod checkpoint;
mod disk;
mod turn;

use super::answer;
use super::fact::{Facts, NodeFacts};
use super::fake::Fake;
use super::monitors::NoMonitors;
use super::process::Processes;
use super::reading::Reading;
use super::{
    Act, Acts, By, Diagnoses, Followed, Happening, Happenings, Lists, Messages, Monitored,
    Monitors, Recorder,
};
use crate::answer::symbol_refusal;
use crate::queue::{Change, Depth, Message, Queue};
use monitor_backends::canned::{Canned, ScriptError};
use monitor_control::LaunchSpec;
use monitor_event::node_event::EventKind;
use monitor_event::outcome::ProcessResults;
use monitor_event::outcome::Refusal;
use monitor_event::right::Tool;
use monitor_event::thread::Ticket;
use monitor_model::field::NodeField;
use monitor_model::id::{Identity, Ns, Pid};
use monitor_model::sample::Process;
use monitor_omis::{Status, Value};
use monitor_symbols as probe;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Who is started has the numbers behind this one.
const FIRST_STARTED: u32 = 100;

/// The node.
pub struct Scripted {
    reading: Reading<Canned>,
    queues: HashMap<Pid, Vec<Message>>,
    fake: Fake,
    /// How many were started.
    n_started: u32,
    calls: call::Script,
    followed: Followed,
    turned: Vec<Happening>,
    criu: checkpoint::Script,
    monitors: Box<dyn Monitors>,
}

impl Scripted {
    /// A node of that name, with nobody on it.
    pub fn new(name: &str) -> Result<Self, ScriptError> {
        let backend = Canned::scripted(&format!("host {name}\nevery 0ms"))?;
        Ok(Self {
            reading: Reading::new(Box::new(backend)),
            queues: HashMap::new(),
            fake: Fake::default(),
            n_started: 0,
            calls: call::Script::default(),
            followed: Followed::default(),
            turned: Vec::new(),
            criu: checkpoint::Script::default(),
            monitors: Box::new(NoMonitors),
        })
    }

    /// With monitors of the same script.
    pub fn with(self, monitors: Box<dyn Monitors>) -> Self {
        Self { monitors, ..self }
    }

    /// Lets something happen.
    pub fn happen(&mut self, line: &str) -> Result<(), ScriptError> {
        if self.calls.take(line, &mut self.reading) {
            return Ok(());
        }
        if self.go_on_with(line) || self.criu.take(line) {
            return Ok(());
        }
        if let Some(happening) = self.turn(line) {
            self.turned.push(happening);
            return Ok(());
        }
        match message(line) {
            Some((pid, message)) => self.queues.entry(pid).or_default().push(message),
            None => return self.reading.backend.apply(line),
        }
        Ok(())
    }

    /// Lets time pass.
    pub fn pass(&mut self, to: Ns) {
        self.reading.backend.advance_to(to);
    }

    fn act_on(&mut self, act: &Act, id: Identity) -> Result<Vec<Value>, Refusal> {
        if let Some(done) = self.fake.act(act, id) {
            return Ok(answer::values(done));
        }
        let pid = id.pid.0;
        match act {
            Act::Stop => self.fake.stands(id, EventKind::Stopped),
            Act::Continue => self.fake.stands(id, EventKind::Continued),
            _ => {}
        }
        let line = match act {
            Act::Stop => format!("process {pid} state=T"),
            Act::Continue => format!("process {pid} state=S"),
            Act::Nice(nice) => format!("process {pid} nice={nice}"),
            Act::Kill(9 | 15) => format!("end {pid} exit_code={}", exit_code(act)),
            _ => return Ok(Vec::new()),
        };
        let refused = |why: ScriptError| Refusal::new(Status::INTERNAL, why.to_string());
        self.happen(&line).map(|()| Vec::new()).map_err(refused)
    }

    /// A new process, of the first number that the cases leave free.
    fn start(&mut self, program: &LaunchSpec) -> Result<Identity, Refusal> {
        self.n_started += 1;
        let pid = Pid(FIRST_STARTED + self.n_started);
        let state = if program.stopped { 'T' } else { 'S' };
        let refused = |why: ScriptError| Refusal::new(Status::INTERNAL, why.to_string());
        self.happen(&format!("process {} state={state}", pid.0)).map_err(refused)?;
        let found = self.look(&[pid])?.into_iter().next();
        let nobody = || Refusal::new(Status::INTERNAL, "the script started nobody");
        let id = found.map(|it| it.id).ok_or_else(nobody)?;
        if program.stopped {
            self.fake.begins_stopped(id);
        }
        Ok(id)
    }
}

/// A message that waits: `message PID sender=N tag=N content=TEXT mark=N`.
fn message(line: &str) -> Option<(Pid, Message)> {
    let mut words = line.strip_prefix("message ")?.split(' ');
    let pid = Pid(words.next()?.parse().ok()?);
    let mut message = Message::default();
    for word in words {
        match word.split_once('=')? {
            ("sender", number) => message.sender = Some(number.parse().ok()?),
            ("tag", number) => message.tag = number.parse().ok()?,
            ("content", text) => message.content = text.into(),
            ("mark", number) => message.mark = number.parse().ok(),
            _ => return None,
        }
    }
    message.bytes = u64::try_from(message.content.len()).ok()?;
    Some((pid, message))
}

fn within(position: usize, length: usize) -> Result<(), Refusal> {
    if position < length {
        return Ok(());
    }
    Err(Refusal::new(Status::UNSUPPORTED, "no message at this position: the queue is shorter"))
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
        self.reading.arguments(id)
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
    fn act(&mut self, by: By<'_>, act: &Act, on: &[Identity]) -> Option<ProcessResults> {
        if self.begins(by.ticket, act, on) {
            return None;
        }
        if let Act::Start(program) = act {
            let started = self.start(program);
            let id = *started.as_ref().unwrap_or(&Identity::default());
            return Some(vec![(id, started.map(|_| Vec::new()))]);
        }
        if let Some(each) = self.checkpoint(act, on) {
            return Some(each);
        }
        Some(on.iter().map(|id| (*id, self.act_on(act, *id))).collect())
    }

    fn has_stopped(&self, id: Identity) -> bool {
        self.fake.has_stopped(id)
    }

    fn release(&mut self, tool: &Tool) {
        self.monitors.leave(tool.session);
    }
}

impl Recorder for Scripted {
    fn save(
        &mut self,
        _: Ticket,
        _: &Tool,
        (file, _): (&Path, Option<Ns>),
    ) -> Result<Option<ProcessResults>, Refusal> {
        let name = Value::from(file.display().to_string().as_str());
        Ok(Some(vec![(Identity::default(), Ok(vec![name]))]))
    }
}

impl Messages for Scripted {
    fn queue(&mut self, id: Identity, _: Depth) -> Result<Queue, Refusal> {
        Ok(Queue::Messages(self.queues.get(&id.pid).cloned().unwrap_or_default()))
    }

    fn send_buffer(&mut self, _: Identity) -> Result<(u64, u64), Refusal> {
        let (what, why) = ("message to send", "the script has none");
        Err(symbol_refusal(&probe::SymbolError::Unavailable { what, why }))
    }

    fn insert(
        &mut self,
        id: Identity,
        position: Option<usize>,
        content: &[u8],
    ) -> Result<Change, Refusal> {
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let queue = self.queues.entry(id.pid).or_default();
        let position = position.unwrap_or(queue.len());
        within(position, queue.len() + 1)?;
        let content = content.to_vec();
        queue.insert(position, Message { sender: Some(0), bytes, content, ..Message::default() });
        Ok(Change::Done)
    }

    fn remove(&mut self, id: Identity, position: usize) -> Result<Change, Refusal> {
        let queue = self.queues.entry(id.pid).or_default();
        within(position, queue.len())?;
        drop(queue.remove(position));
        Ok(Change::Done)
    }

    fn mark(&mut self, _: Identity, _: u64, _: i32) -> Result<Change, Refusal> {
        Ok(Change::Done)
    }
}

impl Diagnoses for Scripted {}
impl Lists for Scripted {}

impl Happenings for Scripted {
    fn can(&mut self, topic: &EventKind) -> Result<(), Refusal> {
        match topic {
            EventKind::Stopped | EventKind::Continued | EventKind::RunControl(_) => Ok(()),
            EventKind::Migrating | EventKind::Migrated => Ok(()),
            EventKind::Diagnosed(_) => Ok(()),
            EventKind::Sampled(_) | EventKind::MonitorEnded(_) | EventKind::Alerted(_) => Ok(()),
            _ => self.reading.can(topic),
        }
    }

    fn watch(&mut self, topics: &BTreeSet<EventKind>) {
        self.fake.watch(topics);
        self.reading.watch(topics);
    }

    fn follow(&mut self, followed: &Followed) {
        self.followed.clone_from(followed);
    }

    fn due(&self) -> Option<Ns> {
        [self.reading.due(), self.monitors.due()].into_iter().flatten().min()
    }

    fn happened(&mut self, now: Ns) -> Vec<Happening> {
        let mut all = self.fake.happened();
        all.extend(self.calls.happened());
        all.append(&mut self.turned);
        all.extend(self.reading.happened(now));
        all.extend(self.monitors.told(now));
        all
    }
}

impl Monitored for Scripted {
    fn monitors(&mut self) -> &mut dyn Monitors {
        &mut *self.monitors
    }
}
