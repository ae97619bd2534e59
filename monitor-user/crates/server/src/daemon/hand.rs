//! The thread that acts: requests of the language in, reply lines out.
//!
//! It owns the requests of this node and the ground that they act on, and waits for lines, for what
//! happens, and for deadlines, never for a reading of the other thread: an event must be acted on
//! in microseconds. Lines go straight into the outboxes of their connections.

use super::missed::Missed;
use super::relay::Relay;
use crate::line::Line;
use crate::outbox::Outbox;
use monitor_backends::select::Choice;
use monitor_cluster::message::RequestLetter;
use monitor_cluster::request::{Act, Requests};
use monitor_event::right::Tool;
use monitor_model::id::Ns;
use monitor_omis::{Dialect, Node};
use monitor_platform::Happenings;
use monitor_platform::live::Live;
use monitor_platform::live::recorder::Service;
use monitor_protocol::Conn;
use monitor_protocol::call::Tag;
use monitor_protocol::reply;
use monitor_sampling::veil::Veil;
use monitor_services::ctx::Member;
use monitor_services::diag::Settings;
use monitor_services::requests::{Input, Limits};
use monitor_sys::clock;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

/// Line of lines that may wait for the thread before connections are read no further.
const WAITING: usize = 8 << 20;
/// How soon a tool that has missed something is looked after again.
const AGAIN: Ns = Ns(100_000_000);

/// What the thread is told.
enum Job {
    Opened(Tool, Arc<Outbox>),
    Said(Conn, Line),
    Closed(Conn),
    Members(Vec<Member>),
    Letter(Node, RequestLetter),
    Diagnoses(Settings),
    Rules(Viewer, Tag),
}

/// Who wants to know what runs here.
pub struct Viewer {
    /// Where he is told.
    pub outbox: Arc<Outbox>,
    /// His user.
    pub uid: u32,
    /// What he sees.
    pub sees: Veil,
}

/// The ways from its ground to the rest of the service.
pub struct Ways {
    /// To the flight recorder.
    pub service: Service,
    /// To the monitors.
    pub monitors: Relay,
}

impl Ways {
    fn ground(&self, choice: Choice) -> Live {
        Live::of(choice, self.service.clone()).with(Box::new(self.monitors.clone()))
    }
}

/// What the thread has to say to another node.
pub type Outgoing = (Node, RequestLetter);

/// The thread, from outside.
pub struct Hand {
    jobs: Option<Sender<Job>>,
    bell: Arc<OwnedFd>,
    room: Arc<Room>,
    thread: Option<JoinHandle<()>>,
}

/// How much waits for the thread.
#[derive(Default)]
struct Room {
    bytes: AtomicUsize,
    freed: Notify,
}

impl Hand {
    /// Starts it, on a node whose processes this backend will read.
    pub fn start(
        own: Member,
        (choice, ways): (Choice, Ways),
        outgoing: UnboundedSender<Outgoing>,
    ) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let room = Arc::new(Room::default());
        let inside = Inside {
            queue,
            bell: Arc::clone(&bell),
            room: Arc::clone(&room),
            requests: Requests::alone(own, Limits::default()),
            outgoing,
            ground: ways.ground(choice),
            choice,
            ways,
            outboxes: HashMap::new(),
            missed: Missed::default(),
        };
        let thread = std::thread::Builder::new().name("hand".into()).spawn(|| inside.run())?;
        Ok(Self { jobs: Some(jobs), bell, room, thread: Some(thread) })
    }

    /// A connection says its first request.
    pub fn opened(&self, tool: Tool, outbox: Arc<Outbox>) {
        self.tell(Job::Opened(tool, outbox));
    }

    /// A connection says a request; whether anybody hears it.
    pub fn said(&self, conn: Conn, line: Line) -> bool {
        self.room.bytes.fetch_add(line.len(), Ordering::Relaxed);
        self.tell(Job::Said(conn, line))
    }

    /// A connection that had said a request has closed.
    pub fn closed(&self, conn: Conn) {
        self.tell(Job::Closed(conn));
    }

    /// There are these nodes from now on.
    pub fn meet(&self, members: Vec<Member>) {
        self.tell(Job::Members(members));
    }

    /// Somebody wants to know what runs here.
    pub fn rules(&self, viewer: Viewer, tag: Tag) {
        self.tell(Job::Rules(viewer, tag));
    }

    /// The administrator's word on unusual events.
    pub fn configure(&self, settings: Settings) {
        self.tell(Job::Diagnoses(settings));
    }

    /// Another node has written.
    pub fn letter(&self, from: Node, letter: RequestLetter) {
        self.tell(Job::Letter(from, letter));
    }

    /// Whether more may be said.
    pub fn has_room(&self) -> bool {
        self.room.bytes.load(Ordering::Relaxed) < WAITING
    }

    /// Waits until more may be said.
    pub async fn room(&self) {
        while !self.has_room() {
            self.room.freed.notified().await;
        }
    }

    /// Ends it: what it holds is released.
    pub fn stop(&mut self) {
        self.jobs = None;
        self.ring();
        if let Some(thread) = self.thread.take() {
            // A panic there was told as it happened.
            let _ = thread.join();
        }
    }

    fn tell(&self, job: Job) -> bool {
        let is_heard = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        self.ring();
        is_heard
    }

    fn ring(&self) {
        // It cannot be full: the thread takes all of it at once.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread, from inside.
struct Inside {
    queue: Receiver<Job>,
    bell: Arc<OwnedFd>,
    room: Arc<Room>,
    requests: Requests,
    outgoing: UnboundedSender<Outgoing>,
    ground: Live,
    choice: Choice,
    ways: Ways,
    outboxes: HashMap<Conn, Arc<Outbox>>,
    missed: Missed,
}

impl Inside {
    fn run(mut self) {
        loop {
            match self.queue.try_recv() {
                Ok(job) => self.job(job),
                Err(TryRecvError::Empty) => self.wait(),
                Err(TryRecvError::Disconnected) => return self.leave(),
            }
        }
    }

    fn job(&mut self, job: Job) {
        match job {
            Job::Opened(tool, outbox) => {
                self.outboxes.insert(tool.session.conn, outbox);
                self.input(Input::Opened(tool, Dialect::Extended));
            }
            Job::Said(conn, line) => {
                if self.room.bytes.fetch_sub(line.len(), Ordering::Relaxed) >= WAITING {
                    self.room.freed.notify_one();
                }
                self.input(Input::Said(conn, line.to_vec()));
            }
            Job::Closed(conn) => self.closed(conn),
            Job::Rules(viewer, tag) => self.answer(&viewer, &tag),
            Job::Members(members) => self.input(Input::Members(members)),
            Job::Diagnoses(settings) => self.input(Input::Diagnoses(settings)),
            Job::Letter(from, letter) => {
                let acts = self.requests.receive(clock::boot(), (from, letter), &mut self.ground);
                self.act(acts);
            }
        }
    }

    /// Everybody sees his own, and who sees everything sees all.
    fn answer(&mut self, viewer: &Viewer, tag: &Tag) {
        let is_shown = |it: &Tool| viewer.sees == Veil::None || it.uid == viewer.uid;
        let rules = self.requests.rules(is_shown, &mut self.ground);
        viewer.outbox.reply(reply::good(tag, rules));
    }

    fn closed(&mut self, conn: Conn) {
        self.input(Input::Closed(conn));
        self.outboxes.remove(&conn);
        self.missed.forget(conn);
        if self.requests.n_sessions() == 0 {
            // Nobody needs the backend any more.
            self.ground = self.ways.ground(self.choice);
        }
    }

    /// All tools are gone, as far as it matters here.
    fn leave(mut self) {
        let all: Vec<Conn> = self.outboxes.keys().copied().collect();
        for conn in all {
            self.closed(conn);
        }
    }

    /// Waits for a line, for what happens, or for what is due.
    fn wait(&mut self) {
        let due = [self.requests.due(), self.ground.due(), self.missed.due(AGAIN)];
        let due = due.into_iter().flatten().min();
        let left = due.map(|due| due.since(clock::boot()));
        let left = left.and_then(|left| Timespec::try_from(Duration::from_nanos(left.0)).ok());
        let mut fds = vec![PollFd::new(&*self.bell, PollFlags::IN)];
        let wakes = self.ground.wakes().into_iter();
        fds.extend(wakes.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // Interrupted by a signal, it looks, and waits again.
        let _ = poll(&mut fds, left.as_ref());
        let is_woken = fds[1..].iter().any(|fd| !fd.revents().is_empty());
        drop(fds);
        let _ = rustix::io::read(&self.bell, &mut [0_u8; 8]);
        self.look(is_woken);
    }

    fn look(&mut self, is_woken: bool) {
        let now = clock::boot();
        if is_woken || self.ground.due().is_some_and(|due| due <= now) {
            let happened = self.ground.happened(now);
            if !happened.is_empty() {
                self.input(Input::Happened(happened));
            }
        }
        if self.requests.due().is_some_and(|due| due <= now) {
            self.input(Input::Tick);
        }
        self.missed.tell(now, &self.outboxes);
    }

    fn input(&mut self, input: Input) {
        let acts = self.requests.input(clock::boot(), input, &mut self.ground);
        self.act(acts);
    }

    fn act(&mut self, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Reply(conn, line) => {
                    if let Some(outbox) = self.outboxes.get(&conn) {
                        outbox.reply(ended(line));
                    }
                }
                Act::Told(conn, line) => {
                    if let Some(outbox) = self.outboxes.get(&conn) {
                        self.missed.pass(conn, outbox, ended(line), clock::boot());
                    }
                }
                // The loop is gone only if the service ends.
                Act::Send(to, letter) => drop(self.outgoing.send((to, letter))),
            }
        }
    }
}

fn ended(line: String) -> Vec<u8> {
    let mut line = line.into_bytes();
    line.push(b'\n');
    line
}
