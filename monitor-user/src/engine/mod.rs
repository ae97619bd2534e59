//! L5, the monitors: calls come in, answers and events go out.
//!
//! Synchronous, and without a clock: time comes in with each input, a reading is work that is
//! handed out and comes back. So a test owns the clock, the reader and every connection.
//! Opens nothing, writes nothing; who calls was found out by a door.

mod alarm;
mod answer;
mod caller;
mod cancel;
mod lease;
mod monitor;
mod register;
mod start;

pub use alarm::LookAt;
pub use answer::{Answer, Listed, NodeAnswer};
pub use caller::{Caller, Conn, Limits};

use crate::meter::census::Claim;
use crate::meter::file::Stat;
use crate::meter::view::{Seen, View};
use crate::model::id::Ns;
use crate::model::status::Refusal;
use crate::wire::call::{Call, Tag};
use crate::wire::event::Event;
use alarm::Alarm;
use cancel::Pending;
use monitor::Monitor;
use register::Claims;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Whatever can wake the engine.
pub enum Input {
    /// Somebody is there.
    Opened(Caller),
    /// He is gone.
    Closed(Conn),
    /// He called.
    Called {
        /// Who.
        from: Conn,
        /// What the reply carries; no reply, if absent.
        tag: Option<Tag>,
        /// What.
        call: Call,
    },
    /// The views come back from a reading.
    Seen(Vec<Look>),
    /// Somebody looked at a file; nothing, if it cannot be.
    Looked(Key, Option<Stat>),
    /// What became of a claim.
    Claimed(Key, Result<(), Refusal>),
    /// Time has passed.
    Tick,
    /// The service ends.
    Shutdown,
}

/// Whatever the engine asks for.
pub enum Output {
    /// The reply to a call.
    Reply {
        /// To whom.
        to: Conn,
        /// The tag of his call.
        tag: Tag,
        /// What became of it.
        answer: Result<Answer, Refusal>,
    },
    /// Something that he asked to be told.
    Event {
        /// Whom.
        to: Conn,
        /// What.
        event: Event,
    },
    /// Read, and let these look.
    Look(Vec<Look>),
    /// Look at a file.
    LookAt(LookAt),
    /// See whether a process can be registered, and do it.
    Claim(Key, Claim),
}

/// One view, on its way to a reading or back.
pub struct Look {
    /// Of which monitor.
    pub key: Key,
    /// The view.
    pub view: Box<View>,
    /// What it saw, on the way back.
    pub seen: Option<Result<Seen, Refusal>>,
}

/// A monitor, as the engine counts them.
pub type Key = u64;

/// The monitors of one node.
pub struct Engine {
    node: Arc<str>,
    limits: Limits,
    callers: HashMap<Conn, Caller>,
    monitors: BTreeMap<Key, Monitor>,
    alarms: BTreeMap<Key, Alarm>,
    next_key: Key,
    /// Whether views are out at a reading.
    looking: bool,
    cancels: Vec<Pending>,
    claims: Claims,
    /// Calls refused since the start.
    refused: u64,
}

impl Engine {
    /// An engine without monitors.
    pub fn new(node: Arc<str>, limits: Limits) -> Self {
        Self {
            node,
            limits,
            callers: HashMap::new(),
            monitors: BTreeMap::new(),
            alarms: BTreeMap::new(),
            next_key: 0,
            looking: false,
            cancels: Vec::new(),
            claims: Claims::default(),
            refused: 0,
        }
    }

    /// Takes an input at a time of `CLOCK_BOOTTIME`; says what is to be done.
    pub fn input(&mut self, now: Ns, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::Opened(caller) => drop(self.callers.insert(caller.conn, caller)),
            Input::Closed(conn) => self.closed(conn, now, &mut out),
            Input::Called { from, tag, call } => {
                self.called((from, tag), call, now, &mut out);
            }
            Input::Seen(looks) => self.seen(looks, now, &mut out),
            Input::Looked(key, stat) => self.looked(key, stat, &mut out),
            Input::Claimed(key, result) => self.claimed(key, result, &mut out),
            Input::Tick => {}
            Input::Shutdown => self.shut_down(&mut out),
        }
        self.expire(now, &mut out);
        self.ring(now, &mut out);
        self.look(now, &mut out);
        out
    }

    /// When it must be given an input, if nothing happens before.
    pub fn due(&self) -> Option<Ns> {
        let ticks = self.monitors.values().filter(|_| !self.looking).filter_map(Monitor::wakes);
        let leases = self.monitors.values().filter_map(|it| it.expires);
        let alarms = self.alarms.values().filter_map(Alarm::due);
        ticks.chain(leases).chain(alarms).min()
    }

    /// The plans of all monitors: what must be attached for them.
    pub fn plans(&self) -> impl Iterator<Item = &[crate::model::want::Capability]> {
        self.monitors.values().map(|it| &*it.capabilities)
    }

    /// How many monitors there are.
    pub fn len(&self) -> usize {
        self.monitors.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.monitors.is_empty()
    }

    fn called(&mut self, by: (Conn, Option<Tag>), call: Call, now: Ns, out: &mut Vec<Output>) {
        let (from, tag) = by;
        let Some(caller) = self.callers.get(&from).cloned() else { return };
        let method = call.method();
        // The reply goes before whatever the call lets happen.
        let place = out.len();
        let answer = match call {
            Call::Hello => Ok(Some(Answer::hello(&self.node, &caller))),
            Call::Monitor(request) => self.start(&caller, tag.clone(), *request, (now, out)),
            Call::Cancel(which) => self.cancel(&caller, tag.clone(), &which, out),
            Call::List => Ok(Some(Answer::List(self.list(&caller, now)))),
            Call::Attach(named) => self.attach(&caller, &named.id, out).map(Some),
            Call::Renew(named) => self.renew(&caller, &named.id, now).map(Some),
            Call::Heartbeat(params) => self.heartbeat(&caller, params, now).map(Some),
            Call::Beat => {
                self.beat(&caller, now);
                Ok(Some(Answer::Heard {}))
            }
            Call::File(params) => self.file(&caller, params, now).map(Some),
            Call::Register(params) => self.register(&caller, tag.clone(), params, (now, out)),
        };
        if let Err(refusal) = &answer {
            self.refused += 1;
            let (uid, pid) = (caller.uid, caller.pid);
            tracing::info!(uid, pid, method, status = refusal.status.name(), "{refusal}");
        }
        if let (Some(tag), Some(answer)) = (tag, answer.transpose()) {
            out.insert(place, Output::Reply { to: from, tag, answer });
        }
    }

    /// Hands out the views of all monitors that are due. One reading at a time: who comes due
    /// meanwhile joins the next.
    fn look(&mut self, now: Ns, out: &mut Vec<Output>) {
        let wakes = |it: &Monitor| it.wakes().is_some_and(|at| at <= now);
        if self.looking || !self.monitors.values().any(wakes) {
            return;
        }
        let due = self.monitors.iter_mut().filter(|(_, it)| it.due().is_some_and(|at| at <= now));
        let looks: Vec<_> = due
            .filter_map(|(key, it)| it.view.take().map(|view| Look { key: *key, view, seen: None }))
            .collect();
        self.looking = !looks.is_empty();
        out.push(Output::Look(looks));
    }

    /// The views are back.
    fn seen(&mut self, looks: Vec<Look>, now: Ns, out: &mut Vec<Output>) {
        self.looking = false;
        for look in looks {
            let Some(monitor) = self.monitors.get_mut(&look.key) else { continue };
            monitor.view = Some(look.view);
            let Some(seen) = look.seen else { continue };
            let over = match monitor.cancelled {
                true => true,
                false => monitor.take(seen, (now, &self.node), out),
            };
            if over {
                self.remove(look.key, out);
            }
        }
    }

    /// Forgets a monitor, and answers those who wait for its end.
    fn remove(&mut self, key: Key, out: &mut Vec<Output>) {
        self.monitors.remove(&key);
        for pending in &mut self.cancels {
            pending.left.remove(&key);
        }
        let (done, left) = self.cancels.drain(..).partition(|it: &Pending| it.left.is_empty());
        self.cancels = left;
        out.extend(done.into_iter().filter_map(Pending::reply));
    }
}
