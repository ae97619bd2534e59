//! The hands of this node: one for each user who acts, and who waits for what from them.
//!
//! In: acts and errands of tools. Out: happenings, as the hands tell them. Nothing here waits but
//! the start of a hand. A tool is a number to them; whom it may touch was looked at before, and
//! the kernel looks again at the hand.

mod act;
pub mod caught;
mod errand;
pub mod hold;
mod order;

use crate::Happening;
use crate::answer;
use act::Pending;
use caught::Caught;
use hold::Holding;
use monitor_control as control;
use monitor_control::user_worker::WorkerPool;
use monitor_control::{ControlError, UserWorker as _, WorkerReply};
use monitor_event::node_event::EventKind;
use monitor_event::outcome::Refusal;
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Target;
use monitor_event::thread::{HeldThread, RunControlRequest, Ticket};
use monitor_model::id::{Identity, Ns};
use monitor_omis::Status;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// Who gives orders for no tool.
const NOBODY: control::ToolId = control::ToolId(0);

/// All hands.
pub struct Hands {
    workers: WorkerPool,
    tools: BTreeMap<SessionId, control::ToolId>,
    /// Orders without an answer, by user and number.
    open: HashMap<(u32, u64), Order>,
    tickets: HashMap<Ticket, Pending>,
    sent: BTreeMap<Ticket, RunControlRequest>,
    /// Threads that wait until actions are done.
    held: BTreeMap<(SessionId, Identity), Vec<HeldThread>>,
    n_held: u64,
    /// Programs of the kernel that stop who meets their event, by serial.
    holding: BTreeMap<u64, Holding>,
    /// Whom they have stopped, as they told it, and whom a hand has seen stand.
    caught: Vec<Caught>,
    stands: Vec<control::WorkerEvent>,
    /// Whether it has changed how processes are held.
    has_changed: bool,
    /// Who holds which process; it stopped for the first and runs after the last.
    stopped: BTreeMap<Identity, BTreeSet<SessionId>>,
    waiting: Vec<Happening>,
    /// Where processes are dumped to.
    dumps: PathBuf,
    /// Where the kernel has put probes: what is read there is what belongs there.
    sites: Vec<control::ProbeLocation>,
}

/// An order that was given.
enum Order {
    /// Part of an act, on this process.
    Act(Ticket, Identity),
    /// An errand of a stored request.
    Errand(Ticket),
    /// To be ready for what a program stops in a process.
    Watch(u64, Identity),
    /// To hold whom a program has stopped.
    Catch(u64, Target),
    /// Nobody waits for its answer.
    Aside,
}

impl Hands {
    /// Of this program, which dump processes to this folder.
    pub fn new(program: PathBuf, dumps: PathBuf) -> Self {
        Self {
            workers: WorkerPool::with_program(program),
            tools: BTreeMap::new(),
            open: HashMap::new(),
            tickets: HashMap::new(),
            sent: BTreeMap::new(),
            held: BTreeMap::new(),
            n_held: 0,
            holding: BTreeMap::new(),
            caught: Vec::new(),
            stands: Vec::new(),
            has_changed: false,
            stopped: BTreeMap::new(),
            waiting: Vec::new(),
            dumps,
            sites: Vec::new(),
        }
    }

    /// A tool has gone.
    pub fn release(&mut self, tool: &Tool) {
        self.sent.retain(|_, sent| sent.tool.session != tool.session);
        self.holding.retain(|_, it| it.tool.session != tool.session);
        self.held.retain(|(session, _), _| *session != tool.session);
        let of_it: Vec<Identity> =
            self.stopped.iter().filter(|it| it.1.contains(&tool.session)).map(|it| *it.0).collect();
        for id in of_it {
            self.released(tool.session, id);
        }
        if self.tools.contains_key(&tool.session) {
            self.order(tool, control::WorkerRequest::ForgetTool, Order::Aside);
            let _number = self.tools.remove(&tool.session);
        }
    }

    /// Readable when there is something.
    pub fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.workers.wake_fd()
    }

    /// Now, if something waits already.
    pub fn due(&self) -> Option<Ns> {
        (!self.waiting.is_empty()).then_some(Ns(0))
    }

    /// What the hands have told.
    pub fn happened(&mut self, now: Ns) -> Vec<Happening> {
        for uid in self.workers.uids() {
            self.listen(uid, now);
        }
        std::mem::take(&mut self.waiting)
    }

    fn listen(&mut self, uid: u32, now: Ns) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        let happened = worker.poll_events();
        self.workers.watch(uid);
        let numbers: Vec<u64> =
            self.open.keys().filter(|(own, _)| *own == uid).map(|(_, number)| *number).collect();
        for number in numbers {
            let answer = self.workers.get_mut(uid).and_then(|worker| worker.take_reply(number));
            if let Some(answer) = answer {
                self.answered(uid, number, answer);
            }
        }
        for it in happened {
            self.told(&it, now);
        }
    }

    fn answered(&mut self, uid: u32, number: u64, answer: Result<WorkerReply, ControlError>) {
        match self.open.remove(&(uid, number)) {
            Some(Order::Act(ticket, id)) => self.acted(ticket, id, answer),
            Some(Order::Errand(ticket)) => {
                if let (Err(trouble), Some(sent)) = (answer, self.sent.get(&ticket)) {
                    let topic = EventKind::RunControl(sent.clone());
                    self.waiting.push(Happening::Failed(topic, answer::refusal(trouble)));
                }
            }
            Some(Order::Watch(serial, id)) => self.watched(serial, id, &answer),
            Some(Order::Catch(serial, target)) => self.held_with_process(serial, target, answer),
            // What could not be undone has ended, or was undone already.
            Some(Order::Aside) | None => {}
        }
    }

    fn order(&mut self, tool: &Tool, act: control::WorkerRequest, what: Order) {
        let next = control::ToolId(self.tools.values().map(|it| it.0).max().unwrap_or(0) + 1);
        let number = *self.tools.entry(tool.session).or_insert(next);
        if let Some(worker) = self.workers.get_mut(tool.uid) {
            let order = worker.send(number, act);
            let _none = self.open.insert((tool.uid, order), what);
        }
    }

    /// Whether a thread waits for actions.
    pub fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Probes of the kernel are at these places now.
    pub fn know(&mut self, sites: Vec<control::ProbeLocation>) {
        if sites == self.sites {
            return;
        }
        self.sites = sites;
        for uid in self.workers.uids() {
            self.tell_sites(uid);
        }
    }

    fn tell_sites(&mut self, uid: u32) {
        let sites = control::WorkerRequest::SetProbes(self.sites.clone());
        // Nobody waits for the answer: whatever is asked later is done later.
        let _number = self.workers.get_mut(uid).map(|worker| worker.send(NOBODY, sites));
    }

    /// Starts the hand of a user, if there is none.
    fn ready(&mut self, tool: &Tool) -> Result<(), Refusal> {
        let is_there = self.workers.get_mut(tool.uid).is_some();
        self.start(tool)?;
        if !is_there && !self.sites.is_empty() {
            self.tell_sites(tool.uid);
        }
        Ok(())
    }

    fn start(&mut self, tool: &Tool) -> Result<(), Refusal> {
        self.workers.ensure(tool.uid, tool.gid).map_err(|why| {
            let text = format!("no hand of user {} can be started: {why}", tool.uid);
            Refusal::new(Status::PERMISSION, text)
        })
    }
}
