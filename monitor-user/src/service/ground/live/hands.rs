//! The hands of this node: one for each user who acts, and who waits for what from them.
//!
//! In: acts and errands of tools. Out: happenings, as the hands tell them. Nothing here waits but
//! the start of a hand. A tool is a number to them; whom it may touch was looked at before, and
//! the kernel looks again at the hand.

use super::order::order;
use crate::control::hand::Users;
use crate::control::{self, Done, Hand as _, Happened, Mark, Target, Trouble, What};
use crate::model::id::{Identity, Ns};
use crate::omis::{Status, Value};
use crate::service::desk::{Occurrence, Topic};
use crate::service::ground::act::Each;
use crate::service::ground::answer;
use crate::service::ground::{Act, Errand, Happening, HeldThread, Sent, Ticket};
use crate::service::outcome::{Refusal, Told};
use crate::service::session::right::{SessionId, Tool};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::BorrowedFd;

/// All hands.
#[derive(Default)]
pub struct Hands {
    users: Users,
    tools: BTreeMap<SessionId, control::Tool>,
    /// Orders without an answer, by user and number.
    open: HashMap<(u32, u64), Order>,
    tickets: HashMap<Ticket, Pending>,
    sent: BTreeMap<Ticket, Sent>,
    held: BTreeMap<(SessionId, Identity), Target>,
    /// Who holds which process; it stopped for the first and runs after the last.
    stopped: BTreeMap<Identity, BTreeSet<SessionId>>,
    waiting: Vec<Happening>,
}

/// An order that was given.
enum Order {
    /// Part of an act, on this process.
    Act(Ticket, Identity),
    /// An errand of a stored request.
    Errand(Ticket),
    /// Nobody waits for its answer.
    Aside,
}

/// An act on several processes.
struct Pending {
    tool: Tool,
    kind: Kind,
    left: usize,
    each: Each,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stop,
    Continue,
    Other,
}

impl Hands {
    /// Begins an act on these; the answers come as `Happening::Acted`.
    pub fn act(&mut self, ticket: Ticket, tool: &Tool, act: &Act, on: &[Identity]) -> Option<Each> {
        if let Err(why) = self.ready(tool) {
            let nobody = [Identity::default()];
            let on = if on.is_empty() { &nobody[..] } else { on };
            return Some(on.iter().map(|id| (*id, Err(why.clone()))).collect());
        }
        let kind = match act {
            Act::Stop => Kind::Stop,
            Act::Continue => Kind::Continue,
            _ => Kind::Other,
        };
        let nobody = [Identity::default()];
        let on = if matches!(act, Act::Start(_)) { &nobody[..] } else { on };
        let orders: Vec<(Identity, control::Act)> =
            on.iter().map(|id| (*id, order(act, self.target(tool, act, *id)))).collect();
        let pending = Pending { tool: *tool, kind, left: orders.len(), each: Vec::new() };
        let _none = self.tickets.insert(ticket, pending);
        for (id, order) in orders {
            self.order(tool, order, Order::Act(ticket, id));
        }
        None
    }

    /// From now on these errands are out, and no others.
    pub fn watch(&mut self, topics: &BTreeSet<Topic>) {
        let wanted = topics.iter().filter_map(|topic| match topic {
            Topic::Sent(sent) => Some((sent.ticket, sent)),
            _ => None,
        });
        let wanted: BTreeMap<Ticket, &Sent> = wanted.collect();
        let gone: Vec<Ticket> =
            self.sent.keys().filter(|it| !wanted.contains_key(it)).copied().collect();
        let gone: Vec<Sent> = gone.iter().filter_map(|it| self.sent.remove(it)).collect();
        for sent in gone {
            for id in &sent.on {
                let unset = control::Act::Unset((*id).into(), Mark(sent.ticket));
                self.order(&sent.tool, unset, Order::Aside);
            }
        }
        for (ticket, sent) in wanted {
            if let Entry::Vacant(place) = self.sent.entry(ticket) {
                let _own = place.insert(sent.clone());
                self.send(sent);
            }
        }
    }

    /// The thread that an event held goes on.
    pub fn go_on(&mut self, held: &HeldThread) {
        let key = (held.tool.session, held.target.process);
        if self.held.get(&key) == Some(&held.target) {
            let _held = self.held.remove(&key);
        }
        let release = control::Act::Release(held.target, Mark(held.ticket));
        self.order(&held.tool, release, Order::Aside);
    }

    /// A tool has gone.
    pub fn release(&mut self, tool: &Tool) {
        self.sent.retain(|_, sent| sent.tool.session != tool.session);
        self.held.retain(|(session, _), _| *session != tool.session);
        let of_it: Vec<Identity> =
            self.stopped.iter().filter(|it| it.1.contains(&tool.session)).map(|it| *it.0).collect();
        for id in of_it {
            self.released(tool.session, id);
        }
        if self.tools.contains_key(&tool.session) {
            self.order(tool, control::Act::Forget, Order::Aside);
            let _number = self.tools.remove(&tool.session);
        }
    }

    /// Readable when there is something.
    pub fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.users.wake()
    }

    /// Now, if something waits already.
    pub fn due(&self) -> Option<Ns> {
        (!self.waiting.is_empty()).then_some(Ns(0))
    }

    /// What the hands have told.
    pub fn happened(&mut self, now: Ns) -> Vec<Happening> {
        for uid in self.users.all() {
            self.listen(uid, now);
        }
        std::mem::take(&mut self.waiting)
    }

    fn listen(&mut self, uid: u32, now: Ns) {
        let Some(hand) = self.users.of(uid) else { return };
        let happened = hand.happened();
        self.users.hear(uid);
        let numbers: Vec<u64> =
            self.open.keys().filter(|(own, _)| *own == uid).map(|(_, number)| *number).collect();
        for number in numbers {
            let answer = self.users.of(uid).and_then(|hand| hand.answer(number));
            if let Some(answer) = answer {
                self.answered(uid, number, answer);
            }
        }
        for it in happened {
            self.told(&it, now);
        }
    }

    fn answered(&mut self, uid: u32, number: u64, answer: Result<Done, Trouble>) {
        match self.open.remove(&(uid, number)) {
            Some(Order::Act(ticket, id)) => self.acted(ticket, id, answer),
            Some(Order::Errand(ticket)) => {
                if let (Err(trouble), Some(sent)) = (answer, self.sent.get(&ticket)) {
                    let topic = Topic::Sent(sent.clone());
                    self.waiting.push(Happening::Failed(topic, answer::refusal(trouble)));
                }
            }
            // What could not be undone has ended, or was undone already.
            Some(Order::Aside) | None => {}
        }
    }

    fn acted(&mut self, ticket: Ticket, id: Identity, answer: Result<Done, Trouble>) {
        let Some(pending) = self.tickets.get_mut(&ticket) else { return };
        let id = match &answer {
            Ok(Done::Started(started)) => *started,
            _ => id,
        };
        let (kind, session, is_done) = (pending.kind, pending.tool.session, answer.is_ok());
        pending.each.push((id, answer.map(answer::values).map_err(answer::refusal)));
        pending.left -= 1;
        let each = (pending.left == 0).then(|| std::mem::take(&mut pending.each));
        if let Some(each) = each {
            let _pending = self.tickets.remove(&ticket);
            self.waiting.push(Happening::Acted(ticket, each));
        }
        match kind {
            Kind::Stop if is_done => self.stopped(session, id),
            Kind::Continue if is_done => self.released(session, id),
            _ => {}
        }
    }

    fn stopped(&mut self, session: SessionId, id: Identity) {
        let holders = self.stopped.entry(id).or_default();
        let is_first = holders.is_empty();
        let _again = holders.insert(session);
        if is_first {
            self.occur(Topic::Stopped, id);
        }
    }

    fn released(&mut self, session: SessionId, id: Identity) {
        let Some(holders) = self.stopped.get_mut(&id) else { return };
        let held = holders.remove(&session);
        if held && holders.is_empty() {
            let _nobody = self.stopped.remove(&id);
            self.occur(Topic::Continued, id);
        }
    }

    fn occur(&mut self, topic: Topic, id: Identity) {
        let told = [Told::Process(id)].into();
        let (at, process) = (Ns(0), Some(id));
        let it = Occurrence { topic, at, process, thread: None, pc: None, told, held: None };
        self.waiting.push(Happening::Occurred(it));
    }

    fn told(&mut self, it: &Happened, now: Ns) {
        let sent = it.wanted.and_then(|(_, mark)| self.sent.get(&mark.0)).cloned();
        let process = it.target.process;
        let value = |value: Value| Told::Value(value);
        let (pc, mut told) = match &it.what {
            What::Breakpoint(pc) | What::Stepped(pc) => (Some(*pc), Vec::new()),
            What::Finished(result) => (None, vec![value((*result).into())]),
            What::Called(integer, float) => {
                (None, vec![value((*integer).into()), value((*float).into())])
            }
            What::Overdue(_) | What::Failed(_) => return self.failed(sent, it),
            What::Ended => {
                let _holders = self.stopped.remove(&process);
                return;
            }
            What::Held | What::StoppedAgain => return,
        };
        let Some(sent) = sent else {
            // The request was taken back meanwhile: nobody else lets the thread go.
            return self.let_go_unwanted(it);
        };
        told.insert(0, Told::Process(process));
        let held = HeldThread { ticket: sent.ticket, tool: sent.tool, target: it.target };
        let _before = self.held.insert((sent.tool.session, process), it.target);
        self.waiting.push(Happening::Occurred(Occurrence {
            topic: Topic::Sent(sent),
            at: now,
            process: Some(process),
            thread: it.target.thread.map(|thread| thread.pid),
            pc,
            told: told.into(),
            held: Some(held),
        }));
    }

    fn failed(&mut self, sent: Option<Sent>, it: &Happened) {
        let why = match &it.what {
            What::Failed(trouble) => answer::refusal(trouble.clone()),
            What::Overdue(most) => {
                let text = format!("the actions took longer than {most:?}: the thread runs on");
                Refusal::new(Status::TIMEOUT, text)
            }
            _ => return,
        };
        match sent {
            Some(sent) => self.waiting.push(Happening::Failed(Topic::Sent(sent), why)),
            // The hand was lost, and with it everybody's hold.
            None => {
                let _holders = self.stopped.remove(&it.target.process);
            }
        }
    }

    fn let_go_unwanted(&mut self, it: &Happened) {
        let Some((number, mark)) = it.wanted else { return };
        let release = control::Act::Release(it.target, mark);
        // Whichever hand it was: the others know nothing of that mark.
        for uid in self.users.all() {
            let _number = self.users.of(uid).map(|hand| hand.order(number, release.clone()));
        }
    }

    fn send(&mut self, sent: &Sent) {
        let mark = Mark(sent.ticket);
        if let Err(why) = self.ready(&sent.tool) {
            return self.waiting.push(Happening::Failed(Topic::Sent(sent.clone()), why));
        }
        for id in &sent.on {
            // One that an event holds goes on from there.
            let held = self.held.get(&(sent.tool.session, *id)).copied();
            let target = held.unwrap_or_else(|| Target::from(*id));
            let act = match &sent.errand {
                Errand::Break(address) => control::Act::Break((*id).into(), *address, mark),
                Errand::Step => control::Act::Step(target, mark),
                Errand::Next => control::Act::Next(target, mark),
                Errand::Finish => control::Act::Finish(target, mark),
                Errand::Call(procedure, arguments) => {
                    control::Act::Call(target, mark, *procedure, arguments.clone())
                }
            };
            self.order(&sent.tool, act, Order::Errand(sent.ticket));
        }
    }

    fn order(&mut self, tool: &Tool, act: control::Act, what: Order) {
        let next = control::Tool(self.tools.values().map(|it| it.0).max().unwrap_or(0) + 1);
        let number = *self.tools.entry(tool.session).or_insert(next);
        if let Some(hand) = self.users.of(tool.uid) {
            let order = hand.order(number, act);
            let _none = self.open.insert((tool.uid, order), what);
        }
    }

    /// A thread that an event holds is the one that is looked into.
    fn target(&self, tool: &Tool, act: &Act, id: Identity) -> Target {
        let of_thread = matches!(
            act,
            Act::Integers(..)
                | Act::SetIntegers(..)
                | Act::Floats(..)
                | Act::SetFloats(..)
                | Act::Goto(_)
                | Act::Backtrace(_)
        );
        let held = self.held.get(&(tool.session, id)).filter(|_| of_thread);
        held.copied().unwrap_or_else(|| Target::from(id))
    }

    /// Whether a thread waits for actions.
    pub fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Starts the hand of a user, if there is none.
    fn ready(&mut self, tool: &Tool) -> Result<(), Refusal> {
        self.users.ready(tool.uid, tool.gid).map_err(|why| {
            let text = format!("no hand of user {} can be started: {why}", tool.uid);
            Refusal::new(Status::PERMISSION, text)
        })
    }
}
