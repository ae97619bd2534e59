//! A scene: the engine, who reads for it, and what was told.

use crate::{Caller, Engine, Input, Limits, Look, Output};
use monitor_backend::{Backend, Error};
use monitor_backends::canned::Canned;
use monitor_model::id::{Ns, Pid};
use monitor_model::probe::Probe;
use monitor_model::sample::{Instant, Process, Sample, Source};
use monitor_model::want::{Capability, Want};
use monitor_model::whose::Eyes;
use monitor_protocol::Conn;
use monitor_protocol::call::{Call, Tag};
use monitor_sampling::round::{Rounds, Turn};
use monitor_sampling::veil::Veil;
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// A second.
pub const S: u64 = 1_000_000_000;
/// What the realtime clock showed as the scene began.
pub const BEGUN: u64 = 1_800_000_000 * S;
/// A millisecond.
pub const MS: u64 = 1_000_000;

/// What a backend was asked.
#[derive(Clone, Default)]
pub struct Asked {
    /// Each reading.
    pub wants: Vec<Want>,
    /// What was to be attached, each time that it changed.
    pub attached: Vec<Vec<Capability>>,
    /// The few that were read alone.
    pub glances: Vec<Vec<Pid>>,
}

/// A backend that notes what it is asked.
struct Noting<B> {
    inner: B,
    asked: Arc<Mutex<Asked>>,
    /// Whether it can read few.
    glances: bool,
    /// The script's world moves with each reading: what a glance at it found is kept for the
    /// reading of everybody that may follow at once.
    found: Option<Sample>,
    /// Those who ended and were told to nobody yet.
    ended: Vec<Process>,
}

impl<B: Backend> Noting<B> {
    fn all(&mut self, want: &Want) -> Result<Sample, Error> {
        let mut sample = match self.found.take() {
            Some(sample) => sample,
            None => self.inner.read(want)?,
        };
        sample.processes.append(&mut self.ended);
        sample.processes.sort_by_key(|process| process.id);
        Ok(sample)
    }
}

impl<B: Backend> Backend for Noting<B> {
    fn source(&self) -> Source {
        self.inner.source()
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.inner.probes()
    }

    fn attach(&mut self, capabilities: &[Capability]) {
        let found = self.found.take().map(|it| it.processes).unwrap_or_default();
        self.ended.extend(found.into_iter().filter(Process::ended));
        let mut asked = self.asked.lock().unwrap();
        if asked.attached.last().is_none_or(|last| last != capabilities) {
            asked.attached.push(capabilities.to_vec());
        }
    }

    fn read(&mut self, want: &Want) -> Result<Sample, Error> {
        self.asked.lock().unwrap().wants.push(want.clone());
        self.all(want)
    }

    fn glance(&mut self, pids: &[Pid]) -> Option<Result<Sample, Error>> {
        if !self.glances {
            return None;
        }
        self.asked.lock().unwrap().glances.push(pids.to_vec());
        let all = self.all(&Want { processes: true, ..Want::default() }).unwrap();
        let mut few = all.clone();
        few.processes.retain(|it| !it.ended() && pids.contains(&it.id.pid));
        self.found = Some(all);
        Some(Ok(few))
    }

    fn describe(&mut self, processes: &mut [Process], want: &Want) {
        self.inner.describe(processes, want);
    }
}

/// Something that was told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A reply: to whom, its tag, its result or its error.
    Reply(Conn, i64, Value),
    /// An event: to whom, its parameters.
    Event(Conn, Value),
}

/// The scene.
pub struct Scene {
    pub engine: Engine,
    rounds: Rounds,
    asked: Arc<Mutex<Asked>>,
    pub now: u64,
    told: Vec<Told>,
    /// Views that are at a reading that takes its time.
    away: Vec<Look>,
    /// Whether readings take their time.
    pub slow: bool,
}

impl Scene {
    /// With the world of a script; connections 1 and 2 of root, 3 and 4 of user 1000.
    pub fn of(script: &str) -> Self {
        Self::with(Canned::scripted(script).unwrap(), false)
    }

    /// The same, where few processes can be read alone.
    pub fn glancing(script: &str) -> Self {
        Self::with(Canned::scripted(script).unwrap(), true)
    }

    /// With any backend.
    pub fn with(inner: impl Backend + 'static, glances: bool) -> Self {
        let asked = Arc::<Mutex<Asked>>::default();
        let (found, ended) = (None, Vec::new());
        let noting = Noting { inner, asked: Arc::clone(&asked), glances, found, ended };
        let mut it = Self {
            engine: Engine::new("node7".into(), Limits { kept_events: 3, ..Limits::default() }),
            rounds: Rounds::new((0, Box::new(noting)), Vec::new()),
            asked,
            now: 0,
            told: Vec::new(),
            away: Vec::new(),
            slow: false,
        };
        (1..=4).for_each(|conn| it.open(conn));
        it
    }

    /// Somebody connects.
    pub fn open(&mut self, conn: Conn) {
        let uid = if conn < 3 { 0 } else { 1000 };
        let veil = if uid == 0 { Veil::None } else { Veil::Own(Eyes { uid, gid: uid }) };
        let pid = u32::try_from(100 + conn).unwrap();
        self.input(Input::Opened(Caller { conn, uid, gid: uid, pid, veil }));
    }

    /// What the backend was asked.
    pub fn asked(&self) -> Asked {
        self.asked.lock().unwrap().clone()
    }

    /// Calls a method with parameters in JSON; gives what is told at once.
    pub fn call(&mut self, from: Conn, tag: i64, method: &str, params: &str) -> Vec<Told> {
        let line = format!(r#"{{"method":"{method}","params":{params}}}"#);
        let (_, call) = Call::from_line(line.as_bytes()).unwrap();
        self.input(Input::Called { from, tag: Some(Tag::Number(tag)), call });
        self.take()
    }

    /// Asks for a monitor; gives its first sample or its refusal.
    #[track_caller]
    pub fn monitor(&mut self, from: Conn, params: &str) -> Value {
        match self.call(from, 7, "monitor", params).as_slice() {
            [Told::Reply(to, 7, value)] if *to == from => value.clone(),
            other => panic!("not one reply: {other:?}"),
        }
    }

    /// Lets time pass to this nanosecond; gives what is told meanwhile.
    pub fn at(&mut self, to: u64) -> Vec<Told> {
        while let Some(due) = self.engine.due().filter(|due| due.0 <= to) {
            self.now = self.now.max(due.0);
            self.input(Input::Tick);
        }
        self.now = self.now.max(to);
        self.take()
    }

    /// The same, for one connection: its events.
    pub fn events(&mut self, conn: Conn, to: u64) -> Vec<Value> {
        let his = |told| match told {
            Told::Event(to, value) if to == conn => Some(value),
            _ => None,
        };
        self.at(to).into_iter().filter_map(his).collect()
    }

    /// The slow reading is over; gives what is told then.
    pub fn back(&mut self) -> Vec<Told> {
        let mut looks = std::mem::take(&mut self.away);
        self.look(&mut looks);
        self.input(Input::Seen(looks));
        self.take()
    }

    /// Any input; what is told is kept until it is taken.
    pub fn input(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let (boot, unix) = (Ns(self.now), Ns(BEGUN + self.now));
            self.engine.set_clock(Instant { boot, unix });
            for output in self.engine.input(Ns(self.now), input) {
                match output {
                    Output::Reply { to, tag, answer } => self.told.push(reply(to, &tag, answer)),
                    Output::Event { to, event } => {
                        self.told.push(Told::Event(to, serde_json::to_value(event).unwrap()));
                    }
                    Output::LookAt(_) | Output::Asked { .. } | Output::Claims(..) => {}
                    Output::Look(looks) if self.slow => self.away = looks,
                    Output::Look(mut looks) => {
                        self.look(&mut looks);
                        inputs.push(Input::Seen(looks));
                    }
                }
            }
        }
    }

    fn look(&mut self, looks: &mut [Look]) {
        self.rounds.need(self.engine.capabilities().collect(), Ns(self.now));
        let mut turns: Vec<_> =
            looks.iter_mut().map(|it| Turn { view: &mut it.view, seen: None }).collect();
        self.rounds.look(&mut turns);
        let seen: Vec<_> = turns.into_iter().map(|turn| turn.seen).collect();
        looks.iter_mut().zip(seen).for_each(|(look, seen)| look.seen = seen);
    }

    fn take(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }
}

fn reply(
    to: Conn,
    tag: &Tag,
    answer: Result<crate::Answer, monitor_model::status::Refusal>,
) -> Told {
    let Tag::Number(tag) = tag else { panic!("tests number their calls") };
    let value = match answer {
        Ok(answer) => serde_json::to_value(answer).unwrap(),
        Err(refusal) => serde_json::json!({
            "error": refusal.status.name(),
            "message": refusal.message,
        }),
    };
    Told::Reply(to, *tag, value)
}

/// The process ids of a sample, those that have ended with a minus.
pub fn pids(event: &Value) -> Vec<i64> {
    let pid = |it: &Value| {
        let pid = it["pid"].as_i64().unwrap();
        if it["ended"] == true { -pid } else { pid }
    };
    event["sample"]["processes"].as_array().unwrap().iter().map(pid).collect()
}
