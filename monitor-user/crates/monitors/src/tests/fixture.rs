//! The fixture: the engine, its reader, and the collected replies and events.

use crate::{Caller, MonitorEngine, MonitorInput, MonitorOutput, ReadRequest, UserLimits};
use monitor_backend::{Backend, Error};
use monitor_backends::canned::Canned;
use monitor_model::{
    BackendKind, Capability, Credentials, Instant, Ns, Pid, Probe, Process, ReadSpec, Sample,
};
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_sampling::{shared_read::SharedReader, visibility::Visibility};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// A second.
pub const S: u64 = 1_000_000_000;
/// Realtime at the start of the fixture.
pub const BEGUN: u64 = 1_800_000_000 * S;
/// A millisecond.
pub const MS: u64 = 1_000_000;

/// The calls of a backend.
#[derive(Clone, Default)]
pub struct BackendCalls {
    /// The readings of all processes.
    pub read_specs: Vec<ReadSpec>,
    /// The attached capabilities, each time that they changed.
    pub attached: Vec<Vec<Capability>>,
    /// The readings of a few processes.
    pub partial_reads: Vec<Vec<Pid>>,
}

/// A backend that records its calls.
struct RecordingBackend<B> {
    inner: B,
    asked: Arc<Mutex<BackendCalls>>,
    /// Whether it can read a few processes alone.
    partial_reads: bool,
    /// The result of the last poll of a few processes: the script advances with each reading, so it
    /// is kept for a reading of all processes that may follow at once.
    polled: Option<Sample>,
    /// Processes that ended and were not reported yet.
    ended: Vec<Process>,
}

impl<B: Backend> RecordingBackend<B> {
    fn all(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
        let mut sample = match self.polled.take() {
            Some(sample) => sample,
            None => self.inner.read(want)?,
        };
        sample.processes.append(&mut self.ended);
        sample.processes.sort_by_key(|process| process.id);
        Ok(sample)
    }
}

impl<B: Backend> Backend for RecordingBackend<B> {
    fn kind(&self) -> BackendKind {
        self.inner.kind()
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.inner.probes()
    }

    fn attach(&mut self, capabilities: &[Capability]) {
        let found = self.polled.take().map(|it| it.processes).unwrap_or_default();
        self.ended.extend(found.into_iter().filter(Process::ended));
        let mut asked = self.asked.lock().unwrap();
        if asked.attached.last().is_none_or(|last| last != capabilities) {
            asked.attached.push(capabilities.to_vec());
        }
    }

    fn read(&mut self, want: &ReadSpec) -> Result<Sample, Error> {
        self.asked.lock().unwrap().read_specs.push(want.clone());
        self.all(want)
    }

    fn read_few(&mut self, pids: &[Pid]) -> Option<Result<Sample, Error>> {
        if !self.partial_reads {
            return None;
        }
        self.asked.lock().unwrap().partial_reads.push(pids.to_vec());
        let all = self.all(&ReadSpec { processes: true, ..ReadSpec::default() }).unwrap();
        let mut few = all.clone();
        few.processes.retain(|it| !it.ended() && pids.contains(&it.id.pid));
        self.polled = Some(all);
        Some(Ok(few))
    }

    fn describe(&mut self, processes: &mut [Process], want: &ReadSpec) {
        self.inner.describe(processes, want);
    }
}

/// An output to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientOutput {
    /// A reply: connection, tag, result or error.
    Reply(Conn, i64, Value),
    /// An event: connection, parameters.
    Event(Conn, Value),
}

/// The engine with its reader and clients.
pub struct Fixture {
    pub engine: MonitorEngine,
    rounds: SharedReader,
    asked: Arc<Mutex<BackendCalls>>,
    pub now: u64,
    outputs: Vec<ClientOutput>,
    /// Consumers at a slow reading.
    away: Vec<ReadRequest>,
    /// Whether readings are slow.
    pub slow: bool,
}

impl Fixture {
    /// A fixture with a scripted backend; connections 1 and 2 of root, 3 and 4 of user 1000.
    pub fn scripted(script: &str) -> Self {
        Self::with(Canned::scripted(script).unwrap(), false)
    }

    /// The same, with a backend that can read a few processes alone.
    pub fn with_partial_reads(script: &str) -> Self {
        Self::with(Canned::scripted(script).unwrap(), true)
    }

    /// A fixture with any backend.
    pub fn with(inner: impl Backend + 'static, partial_reads: bool) -> Self {
        let asked = Arc::<Mutex<BackendCalls>>::default();
        let (found, ended) = (None, Vec::new());
        let noting = RecordingBackend {
            inner,
            asked: Arc::clone(&asked),
            partial_reads,
            polled: found,
            ended,
        };
        let mut it = Self {
            engine: MonitorEngine::new(
                "node7".into(),
                UserLimits { kept_events: 3, ..UserLimits::default() },
            ),
            rounds: SharedReader::new((0, Box::new(noting)), Vec::new()),
            asked,
            now: 0,
            outputs: Vec::new(),
            away: Vec::new(),
            slow: false,
        };
        (1..=4).for_each(|conn| it.open(conn));
        it
    }

    /// Opens a connection.
    pub fn open(&mut self, conn: Conn) {
        let uid = if conn < 3 { 0 } else { 1000 };
        let visibility = if uid == 0 {
            Visibility::All
        } else {
            Visibility::OwnInFull(Credentials { uid, gid: uid })
        };
        let pid = u32::try_from(100 + conn).unwrap();
        self.input(MonitorInput::Opened(Caller { conn, uid, gid: uid, pid, visibility }));
    }

    /// The calls of the backend.
    pub fn backend_calls(&self) -> BackendCalls {
        self.asked.lock().unwrap().clone()
    }

    /// Calls a method with parameters in JSON; returns the outputs.
    pub fn call(&mut self, from: Conn, tag: i64, method: &str, params: &str) -> Vec<ClientOutput> {
        let line = format!(r#"{{"method":"{method}","params":{params}}}"#);
        let (_, call) = Call::from_line(line.as_bytes()).unwrap();
        self.input(MonitorInput::Called { from, tag: Some(Tag::Number(tag)), call });
        self.take_outputs()
    }

    /// Starts a monitor; returns its first sample or its refusal.
    #[track_caller]
    pub fn monitor(&mut self, from: Conn, params: &str) -> Value {
        match self.call(from, 7, "monitor", params).as_slice() {
            [ClientOutput::Reply(to, 7, value)] if *to == from => value.clone(),
            other => panic!("not one reply: {other:?}"),
        }
    }

    /// Advances the clock; returns the outputs.
    pub fn at(&mut self, to: u64) -> Vec<ClientOutput> {
        while let Some(due) = self.engine.due().filter(|due| due.0 <= to) {
            self.now = self.now.max(due.0);
            self.input(MonitorInput::Tick);
        }
        self.now = self.now.max(to);
        self.take_outputs()
    }

    /// Advances the clock; returns the events of one connection.
    pub fn events(&mut self, conn: Conn, to: u64) -> Vec<Value> {
        let own = |outputs| match outputs {
            ClientOutput::Event(to, value) if to == conn => Some(value),
            _ => None,
        };
        self.at(to).into_iter().filter_map(own).collect()
    }

    /// Ends the slow reading; returns the outputs.
    pub fn end_reading(&mut self) -> Vec<ClientOutput> {
        let mut looks = std::mem::take(&mut self.away);
        self.read(&mut looks);
        self.input(MonitorInput::ReadingDone(looks));
        self.take_outputs()
    }

    /// Gives the engine an input, and collects the outputs.
    pub fn input(&mut self, input: MonitorInput) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let (boot, unix) = (Ns(self.now), Ns(BEGUN + self.now));
            self.engine.set_clock(Instant { boot, unix });
            for output in self.engine.input(Ns(self.now), input) {
                match output {
                    MonitorOutput::Reply { to, tag, answer } => {
                        self.outputs.push(reply(to, &tag, answer))
                    }
                    MonitorOutput::Event { to, event } => {
                        self.outputs
                            .push(ClientOutput::Event(to, serde_json::to_value(event).unwrap()));
                    }
                    MonitorOutput::StatFile(_)
                    | MonitorOutput::Query { .. }
                    | MonitorOutput::CheckClaims(..) => {}
                    MonitorOutput::Read(looks) if self.slow => self.away = looks,
                    MonitorOutput::Read(mut looks) => {
                        self.read(&mut looks);
                        inputs.push(MonitorInput::ReadingDone(looks));
                    }
                }
            }
        }
    }

    fn read(&mut self, looks: &mut [ReadRequest]) {
        self.rounds.set_needed(self.engine.capabilities().collect(), Ns(self.now));
        ReadRequest::read_all(looks, &mut self.rounds);
    }

    fn take_outputs(&mut self) -> Vec<ClientOutput> {
        std::mem::take(&mut self.outputs)
    }
}

fn reply(
    to: Conn,
    tag: &Tag,
    answer: Result<crate::Answer, monitor_model::status::Refusal>,
) -> ClientOutput {
    let Tag::Number(tag) = tag else { panic!("tests number their calls") };
    let value = match answer {
        Ok(answer) => serde_json::to_value(answer).unwrap(),
        Err(refusal) => serde_json::json!({
            "error": refusal.status.name(),
            "message": refusal.message,
        }),
    };
    ClientOutput::Reply(to, *tag, value)
}

/// The process ids of a sample; negative for ended processes.
pub fn pids(event: &Value) -> Vec<i64> {
    let pid = |it: &Value| {
        let pid = it["pid"].as_i64().unwrap();
        if it["ended"] == true { -pid } else { pid }
    };
    event["sample"]["processes"].as_array().unwrap().iter().map(pid).collect()
}
