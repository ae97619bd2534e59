//! L5, the monitors: calls come in, answers and events go out.
//!
//! Synchronous, and without a clock: time comes in with each input, a reading is work that is
//! handed out and comes back. So a test owns the clock, the reader and every connection.
//! Opens nothing, writes nothing; who calls was found out by a door.

mod account;
mod agenda;
mod alarm;
pub mod alone;
mod answer;
pub mod ask;
mod caller;
mod cancel;
mod lease;
mod monitor;
mod register;
mod start;

pub use alarm::LookAt;
pub use answer::{Answer, NodeAnswer};
pub use caller::{Caller, Conn, Limits};

use crate::meter::census::Claim;
use crate::meter::eye::Eye;
use crate::meter::file::{Stat, Unseen};
use crate::meter::veil::Veil;
use crate::meter::view::Seen;
use crate::model::id::Ns;
use crate::model::sample::Instant;
use crate::model::status::Refusal;
use crate::model::want::Capability;
use crate::wire::call::{Call, Tag};
use crate::wire::event::Event;
use crate::wire::params::Flight;
use account::Accounts;
use agenda::Agenda;
use alarm::Alarm;
use cancel::Pending;
use monitor::{Monitor, SLACK, Teller};
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
    /// Somebody looked at a file.
    Looked(Key, Result<Stat, Unseen>),
    /// Somebody whom these watch has ended, and his last record is there.
    Ended(Vec<Key>),
    /// What became of claims.
    Claimed(Vec<(Key, Result<(), Refusal>)>),
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
    /// See whether processes can be registered, and do it.
    Claims(Vec<(Key, Claim)>),
    /// Answer what is not about monitors.
    Asked {
        /// Whom.
        to: Conn,
        /// The tag of his call.
        tag: Tag,
        /// What he wants to know.
        about: About,
    },
}

/// What the engine does not know of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// How each capability is served.
    Probes,
    /// What the service uses.
    Service,
    /// Requests that wait for their events.
    Rules,
    /// What the flight recorder kept.
    Flight(Flight),
}

/// One view, on its way to a reading or back.
pub struct Look {
    /// Of which monitor.
    pub key: Key,
    /// The view.
    pub view: Eye,
    /// What it saw, on the way back.
    pub seen: Option<Result<Seen, Refusal>>,
}

/// A monitor, as the engine counts them.
pub type Key = u64;

/// The monitors of one node.
pub struct Engine {
    node: Arc<str>,
    /// The realtime clock less the one that inputs have: for what is told without a reading.
    epoch: Ns,
    limits: Limits,
    callers: HashMap<Conn, Caller>,
    monitors: BTreeMap<Key, Monitor>,
    alarms: BTreeMap<Key, Alarm>,
    accounts: Accounts,
    next_key: Key,
    /// When views must go out.
    ticks: Agenda,
    /// When monitors end that nobody listens to.
    leases: Agenda,
    /// How many monitors need a capability.
    needed: BTreeMap<Capability, usize>,
    /// Whether views are out at a reading.
    looking: bool,
    cancels: Vec<Pending>,
    claims: Claims,
    /// Calls refused since the start, by the name of their status.
    refused: BTreeMap<&'static str, u64>,
}

impl Engine {
    /// An engine without monitors.
    pub fn new(node: Arc<str>, limits: Limits) -> Self {
        Self {
            node,
            epoch: Ns(0),
            limits,
            callers: HashMap::new(),
            monitors: BTreeMap::new(),
            alarms: BTreeMap::new(),
            accounts: Accounts::default(),
            next_key: 0,
            ticks: Agenda::default(),
            leases: Agenda::default(),
            needed: BTreeMap::new(),
            looking: false,
            cancels: Vec::new(),
            claims: Claims::default(),
            refused: BTreeMap::new(),
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
            Input::Seen(looks) => {
                self.seen(looks, now, &mut out);
                self.note_refused(&out);
            }
            Input::Looked(key, stat) => self.looked(key, stat, now, &mut out),
            Input::Ended(keys) => self.hurry(&keys),
            Input::Claimed(settled) => self.claimed(settled, now, &mut out),
            Input::Tick => {}
            Input::Shutdown => self.shut_down(now, &mut out),
        }
        self.expire(now, &mut out);
        self.ring(now, &mut out);
        self.look(now, &mut out);
        self.claim(now, &mut out);
        out
    }

    /// What both clocks show.
    pub const fn set_clock(&mut self, now: Instant) {
        self.epoch = now.unix.since(now.boot);
    }

    /// A time of an input on the realtime clock.
    const fn unix(&self, now: Ns) -> Ns {
        Ns(now.0.saturating_add(self.epoch.0))
    }

    /// When it must be given an input, if nothing happens before.
    pub fn due(&self) -> Option<Ns> {
        let readings = self.ticks.first().into_iter().chain(self.accounts.due());
        let readings = readings.filter(|_| !self.looking);
        let alarms = self.alarms.values().filter_map(Alarm::due);
        readings.chain(self.leases.first()).chain(alarms).chain(self.claims.due()).min()
    }

    /// What must be attached for all monitors and accounts.
    pub fn capabilities(&self) -> impl Iterator<Item = Capability> {
        self.needed.keys().chain(self.accounts.capabilities()).copied()
    }

    /// Who is at the other end of a connection.
    pub fn caller(&self, conn: Conn) -> Option<&Caller> {
        self.callers.get(&conn)
    }

    /// All who are connected.
    pub fn callers(&self) -> impl Iterator<Item = &Caller> {
        self.callers.values()
    }

    /// Calls refused since the start, by the name of their status.
    pub const fn refused(&self) -> &BTreeMap<&'static str, u64> {
        &self.refused
    }

    /// From now on these limits hold; what there is already, stays.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
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
            Call::Cancel(which) => self.cancel((&caller, tag.clone()), &which, now, out),
            Call::List => Ok(Some(Answer::List(self.list(&caller, now)))),
            Call::Attach(named) => self.attach(&caller, &named.id, out).map(Some),
            Call::Renew(named) => self.renew(&caller, &named.id, now).map(Some),
            Call::Heartbeat(params) => self.heartbeat((&caller, tag.clone()), params, (now, out)),
            Call::Beat => {
                self.beat(&caller, now);
                Ok(Some(Answer::Heard {}))
            }
            Call::File(params) => self.file((&caller, tag.clone()), params, (now, out)),
            Call::Account => self.account(&caller, tag.clone(), now),
            Call::Sum(sum) => self.sum(&caller, tag.clone(), (sum.pid, now)),
            Call::Rules => asked((from, &tag), About::Rules, out),
            Call::Probes => asked((from, &tag), About::Probes, out),
            Call::Status => asked((from, &tag), About::Service, out),
            // It has everybody's processes in full.
            Call::Flight(_) if caller.veil != Veil::None => {
                Err(Refusal::denied("the flight recorder has all processes: it takes observe-all"))
            }
            Call::Flight(params) => asked((from, &tag), About::Flight(params), out),
            Call::Register(params) => self.register(&caller, tag.clone(), params, now),
        };
        if let Err(refusal) = &answer {
            self.note_refusal(&caller, method, refusal);
        }
        if let (Some(tag), Some(answer)) = (tag, answer.transpose()) {
            out.insert(place, Output::Reply { to: from, tag, answer });
        }
    }

    /// The same of first samples that could not be had: these are all the replies there are.
    fn note_refused(&mut self, out: &[Output]) {
        for output in out {
            let Output::Reply { to, answer: Err(refusal), .. } = output else { continue };
            self.refuse(*to, "monitor", refusal);
        }
    }

    /// Counts a refusal to somebody, and writes it into the log.
    pub fn refuse(&mut self, to: Conn, method: &str, refusal: &Refusal) {
        if let Some(caller) = self.callers.get(&to).cloned() {
            self.note_refusal(&caller, method, refusal);
        }
    }

    /// Counts a refusal, and writes it into the log.
    fn note_refusal(&mut self, caller: &Caller, method: &str, refusal: &Refusal) {
        *self.refused.entry(refusal.status.name()).or_default() += 1;
        let (uid, pid) = (caller.uid, caller.pid);
        tracing::info!(uid, pid, method, status = refusal.status.name(), "{refusal}");
    }

    /// Hands out the views of all monitors that are due. One reading at a time: who comes due
    /// meanwhile joins the next.
    fn look(&mut self, now: Ns, out: &mut Vec<Output>) {
        let first = self.ticks.first().into_iter().chain(self.accounts.due()).min();
        if self.looking || first.is_none_or(|at| at > now) {
            return;
        }
        // Who is due, but could wait a little longer, shares the reading.
        let soon = self.ticks.until(Ns(now.0.saturating_add(SLACK.0)));
        let mut looks = Vec::with_capacity(soon.len());
        for key in soon {
            let due = self.monitors.get_mut(&key).filter(|it| it.due().is_some_and(|at| at <= now));
            if let Some(view) = due.and_then(|it| it.leave(now)) {
                looks.push(Look { key, view: Eye::View(view), seen: None });
                self.ticks.set(key, None);
            }
        }
        let accounts = self.accounts.looks(now);
        looks.extend(accounts.into_iter().map(|(key, view)| Look { key, view, seen: None }));
        self.looking = !looks.is_empty();
        out.push(Output::Look(looks));
    }

    /// These shall look before their time.
    fn hurry(&mut self, keys: &[Key]) {
        for key in keys {
            // Whoever waits for his first sample sees it there.
            if let Some(monitor) = self.monitors.get_mut(key).filter(|it| it.seq > 0) {
                monitor.hurry = true;
                self.note(*key);
            }
        }
    }

    /// The views are back.
    fn seen(&mut self, looks: Vec<Look>, now: Ns, out: &mut Vec<Output>) {
        self.looking = false;
        let unix = self.unix(now);
        for look in looks {
            let view = match look.view {
                Eye::View(view) => view,
                Eye::Account(eye) => {
                    self.accounted(look.key, (eye, look.seen), now, out);
                    continue;
                }
                // Whoever collects metrics asks without a monitor.
                Eye::Scrape(_) | Eye::Whole(_) => continue,
            };
            let Some(monitor) = self.monitors.get_mut(&look.key) else { continue };
            monitor.view = Some(view);
            let over = match look.seen {
                Some(_) if monitor.cancelled => true,
                Some(seen) => monitor.take(seen, (now, Teller { node: &self.node, unix }), out),
                None => false,
            };
            if over && !monitor.cancelled && monitor.awaited() {
                let capabilities = monitor.rest();
                self.release(capabilities);
                self.note(look.key);
            } else if over {
                self.remove(look.key, out);
            } else {
                self.note(look.key);
            }
        }
    }

    /// Notes when a monitor must be looked after.
    fn note(&mut self, key: Key) {
        let monitor = self.monitors.get(&key).filter(|it| !it.cancelled);
        self.ticks.set(key, monitor.and_then(Monitor::wakes));
        self.leases.set(key, monitor.and_then(|it| it.expires));
    }

    /// Takes a monitor in.
    fn insert(&mut self, monitor: Monitor) {
        let key = self.next_key;
        self.next_key += 1;
        for &capability in &monitor.capabilities {
            *self.needed.entry(capability).or_default() += 1;
        }
        self.monitors.insert(key, monitor);
        self.note(key);
    }

    /// A monitor needs these no more.
    fn release(&mut self, capabilities: Vec<Capability>) {
        for capability in capabilities {
            let left = self.needed.remove(&capability).unwrap_or(0).saturating_sub(1);
            self.needed.extend((left > 0).then_some((capability, left)));
        }
    }

    /// Forgets a monitor, and answers those who wait for its end.
    fn remove(&mut self, key: Key, out: &mut Vec<Output>) {
        let removed = self.monitors.remove(&key);
        self.release(removed.map(|it| it.capabilities).unwrap_or_default());
        self.note(key);
        for pending in &mut self.cancels {
            pending.left.remove(&key);
        }
        let (done, left) = self.cancels.drain(..).partition(|it: &Pending| it.left.is_empty());
        self.cancels = left;
        out.extend(done.into_iter().filter_map(Pending::reply));
    }
}

/// Hands on a question; nobody answers what carries no tag.
fn asked(
    by: (Conn, &Option<Tag>),
    about: About,
    out: &mut Vec<Output>,
) -> Result<Option<Answer>, Refusal> {
    let (to, tag) = by;
    out.extend(tag.clone().map(|tag| Output::Asked { to, tag, about }));
    Ok(None)
}

#[cfg(test)]
mod tests;
