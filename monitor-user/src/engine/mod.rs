//! L5, the monitors: calls come in, answers and events go out.
//!
//! Synchronous, and without a clock: time comes in with each input, a reading is work that is
//! handed out and comes back. So a test owns the clock, the reader and every connection.
//! Opens nothing, writes nothing; who calls was found out by a door.

mod account;
mod alarm;
mod answer;
mod caller;
mod cancel;
mod eye;
mod lease;
mod monitor;
mod start;

pub use alarm::LookAt;
pub use answer::{Answer, NodeAnswer};
pub use caller::{Caller, Conn, Limits};
pub use eye::Eye;

use crate::meter::file::Stat;
use crate::meter::view::Seen;
use crate::model::id::Ns;
use crate::model::status::Refusal;
use crate::model::want::Capability;
use crate::wire::call::{Call, Tag};
use crate::wire::event::Event;
use account::Accounts;
use alarm::Alarm;
use cancel::Pending;
use monitor::Monitor;
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
    limits: Limits,
    callers: HashMap<Conn, Caller>,
    monitors: BTreeMap<Key, Monitor>,
    alarms: BTreeMap<Key, Alarm>,
    accounts: Accounts,
    next_key: Key,
    /// Whether views are out at a reading.
    looking: bool,
    cancels: Vec<Pending>,
    /// Calls refused since the start, by the name of their status.
    refused: BTreeMap<&'static str, u64>,
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
            accounts: Accounts::default(),
            next_key: 0,
            looking: false,
            cancels: Vec::new(),
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
            Input::Seen(looks) => self.seen(looks, now, &mut out),
            Input::Looked(key, stat) => self.looked(key, stat, &mut out),
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
        let accounts = self.accounts.due().filter(|_| !self.looking);
        ticks.chain(leases).chain(alarms).chain(accounts).min()
    }

    /// The plans of all monitors: what must be attached for them.
    pub fn plans(&self) -> impl Iterator<Item = &[Capability]> {
        let accounts = std::iter::once(self.accounts.capabilities());
        self.monitors.values().map(|it| &*it.capabilities).chain(accounts)
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
            Call::Account => self.account(&caller, tag.clone(), now),
            Call::Sum(sum) => self.sum(&caller, tag.clone(), (sum.pid, now)),
            Call::Probes => asked((from, &tag), About::Probes, out),
            Call::Status => asked((from, &tag), About::Service, out),
        };
        if let Err(refusal) = &answer {
            *self.refused.entry(refusal.status.name()).or_default() += 1;
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
        let monitors = self.monitors.values().filter_map(Monitor::wakes);
        if self.looking || !monitors.chain(self.accounts.due()).any(|at| at <= now) {
            return;
        }
        let due = self.monitors.iter_mut().filter(|(_, it)| it.due().is_some_and(|at| at <= now));
        let views = due.filter_map(|(key, it)| Some((*key, Eye::View(it.view.take()?))));
        let looks: Vec<_> = views
            .chain(self.accounts.looks(now))
            .map(|(key, view)| Look { key, view, seen: None })
            .collect();
        self.looking = !looks.is_empty();
        out.push(Output::Look(looks));
    }

    /// The views are back.
    fn seen(&mut self, looks: Vec<Look>, now: Ns, out: &mut Vec<Output>) {
        self.looking = false;
        for look in looks {
            let view = match look.view {
                Eye::View(view) => view,
                Eye::Account(eye) => {
                    self.accounted(look.key, (eye, look.seen), now, out);
                    continue;
                }
            };
            let Some(monitor) = self.monitors.get_mut(&look.key) else { continue };
            monitor.view = Some(view);
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
