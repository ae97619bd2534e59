//! L5, requests: lines of tools come in, lines of replies go out.
//!
//! ```text
//!  a line -> parse, expand, bind -> a course: stage by stage, on this node and on others -> reply
//!                                   or stored, until its event occurs: then a course of its own
//! ```
//!
//! Synchronous and without a clock, like the engine of monitors: time comes in with each input, and
//! whoever calls owns the ground. What other nodes shall do goes out as packets, and their answers
//! come in. An act that takes longer than the call is waited for, up to a deadline.

mod bind;
mod clerk;
mod compile;
mod course;
mod diagnose;
mod fill;
mod fire;
mod guest;
mod meet;
mod migrate;
mod packet;
mod program;
mod run;
mod seat;
mod stored;
mod tell;
#[cfg(test)]
mod tests;
mod visit;

pub use packet::{Answered, Packet, PartId, Spoken, What};

use crate::counter::Shelf;
use crate::ctx::Member;
use crate::diag::{Book, Settings};
use crate::{Later, Registry};
use clerk::{Raised, Shared};
use course::Course;
use guest::Guests;
use migrate::Migrations;
use monitor_event::occurrence::{EventKind, FollowedActivity};
use monitor_event::right::{SessionId, Tool};
use monitor_event::thread::Ticket;
use monitor_model::id::{Identity, Ns};
use monitor_omis::{Dialect, Node, Reply, RequestId, parse, print};
use monitor_platform::{Followed, Ground, Happening};
use monitor_protocol::Conn;
use seat::Seat;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Whatever can wake the machine.
#[derive(Debug)]
pub enum Input {
    /// A tool has come.
    Opened(Tool, Dialect),
    /// It has gone.
    Closed(Conn),
    /// It said a line.
    Said(Conn, Vec<u8>),
    /// Something happened on this node.
    Happened(Vec<Happening>),
    /// It is this node's turn to do what a packet says.
    Ordered(Packet),
    /// Another node has answered.
    Answered(Answered),
    /// Something occurred on another node that a tool of ours waits for.
    Spoken(Spoken),
    /// There are other nodes than before.
    Members(Vec<Member>),
    /// The administrator's word on unusual events.
    Diagnoses(Settings),
    /// Time has passed.
    Tick,
}

/// Whatever the machine asks for.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// The reply to a line of a tool; there is one for each.
    Reply(Conn, String),
    /// What a tool is told at an event.
    Told(Conn, String),
    /// Give this to all its nodes, this one too, in the one order.
    Order(Packet),
    /// Give an answer to the node that waits for it.
    Answer(Node, Answered),
    /// Give a reply to the node of its tool.
    Speak(Node, Spoken),
}

/// What a node lets tools have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Stored requests of a session.
    pub stored: usize,
    /// Lists of a session that run at the same time.
    pub courses: usize,
    /// Occurrences of one stored request in a second, beyond which it is disabled.
    pub occurrences: u64,
    /// Events that were raised and wait for their turn.
    pub raised: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { stored: 4096, courses: 1024, occurrences: 200_000, raised: 65_536 }
    }
}

/// The requests of one node.
pub struct Machine {
    node: Node,
    members: Vec<Member>,
    registry: Registry,
    limits: Limits,
    seats: BTreeMap<SessionId, Seat>,
    courses: BTreeMap<u64, Course>,
    /// Acts that go on: who waits for each.
    acts: HashMap<Ticket, (run::Place, SessionId, Later)>,
    shared: Shared,
    shelf: Shelf,
    guests: Guests,
    migrations: Migrations,
    diagnoses: Book,
    /// Of whom was asked whether they call MPI_Finalize, and who does.
    asked: BTreeSet<(Identity, bool)>,
    finalizing: BTreeSet<Identity>,
    raised: VecDeque<Raised>,
    /// What the ground was last told to look out for.
    watched: BTreeSet<EventKind>,
    /// In whom it was last told to look out.
    followed: Followed,
    /// Whether the kernel was given any request.
    has_programs: bool,
    /// Whether that may have changed.
    is_stale: bool,
    next: u64,
}

/// What a call of the machine has to do with: when it is, what it acts on, what comes of it.
pub(in crate::requests) struct Turn<'t> {
    now: Ns,
    ground: &'t mut dyn Ground,
    out: Vec<Output>,
}

impl Machine {
    /// A node without others, and without tools.
    pub fn new(own: Member, limits: Limits) -> Self {
        Self {
            node: own.node,
            members: vec![own],
            registry: Registry::built_in(),
            limits,
            seats: BTreeMap::new(),
            courses: BTreeMap::new(),
            acts: HashMap::new(),
            shared: Shared::default(),
            shelf: Shelf::default(),
            guests: Guests::default(),
            migrations: Migrations::default(),
            diagnoses: Book::default(),
            asked: BTreeSet::new(),
            finalizing: BTreeSet::new(),
            raised: VecDeque::new(),
            watched: BTreeSet::new(),
            followed: Followed::default(),
            has_programs: false,
            is_stale: false,
            next: 0,
        }
    }

    /// Takes an input at a time of `CLOCK_BOOTTIME`; says what is to be done.
    pub fn input(&mut self, now: Ns, input: Input, ground: &mut dyn Ground) -> Vec<Output> {
        let mut turn = Turn { now, ground, out: Vec::new() };
        match input {
            Input::Opened(tool, dialect) => {
                self.seats.insert(tool.session, Seat::new(tool, dialect));
            }
            Input::Closed(conn) => self.closed(conn, &mut turn),
            Input::Said(conn, line) => self.said(conn, &line, &mut turn),
            Input::Happened(happenings) => self.happened(happenings, &mut turn),
            Input::Ordered(packet) => self.visited(packet, &mut turn),
            Input::Answered(answered) => self.answered(answered, &mut turn),
            Input::Spoken(spoken) => self.speak(spoken, &mut turn),
            Input::Members(members) => self.meet(members, &mut turn),
            Input::Diagnoses(settings) => self.diagnoses.set(settings, now),
            Input::Tick => {}
        }
        self.settle(&mut turn);
        turn.out
    }

    /// When it must be given an input, if nothing happens before.
    pub fn due(&self) -> Option<Ns> {
        let courses = self.courses.values().map(|it| it.deadline).min();
        [courses, self.diagnoses.due(), self.migrations.due()].into_iter().flatten().min()
    }

    /// Whether anything is looked out for.
    pub fn is_watching(&self) -> bool {
        !self.watched.is_empty()
    }

    /// How many tools there are, those of other nodes included, and processes on their way: who
    /// has neither is idle.
    pub fn n_sessions(&self) -> usize {
        self.seats.len() + self.migrations.n_going()
    }

    /// A line of a tool: a request, or what is wrong with it.
    fn said(&mut self, conn: Conn, line: &[u8], turn: &mut Turn<'_>) {
        let id = self.own(conn);
        let Some(seat) = self.seats.get(&id) else { return };
        let dialect = seat.session.dialect;
        let read = parse::request(line, dialect)
            .and_then(|request| seat.definitions.expand(&request))
            .and_then(|request| bind::check(&self.registry, &request).map(|()| request));
        match read {
            Ok(request) => self.start(id, request, turn),
            Err(fault) => turn.out.push(Output::Reply(conn, print::reply(&fault.reply(), dialect))),
        }
    }

    /// Says a reply to a tool, or to the node that it is connected to.
    fn speak(&mut self, spoken: Spoken, turn: &mut Turn<'_>) {
        let session = spoken.session;
        if session.entry != self.node.0 {
            return turn.out.push(Output::Speak(Node(session.entry), spoken));
        }
        let Some(seat) = self.seats.get(&session) else { return };
        let line = print::reply(&spoken.reply, seat.session.dialect);
        turn.out.push(match spoken.is_told {
            true => Output::Told(session.conn, line),
            false => Output::Reply(session.conn, line),
        });
    }

    /// A tool has gone: nothing of it is left, here and elsewhere.
    fn closed(&mut self, conn: Conn, turn: &mut Turn<'_>) {
        let id = self.own(conn);
        let Some(seat) = self.seats.get(&id) else { return };
        let nodes: Vec<Node> = seat.nodes.iter().copied().collect();
        if !nodes.is_empty() {
            turn.out.push(Output::Order(seat.packet(self.node, nodes)));
        }
        self.forget(id, turn);
    }

    /// Forgets a session, and undoes what it did.
    fn forget(&mut self, id: SessionId, turn: &mut Turn<'_>) {
        let Some(seat) = self.seats.remove(&id) else { return };
        turn.ground.release(&seat.session.tool);
        for it in self.shelf.leave(id) {
            turn.ground.free_meters(it.number);
        }
        self.last_words(id, turn);
        self.registry.withdraw(id);
        self.guests.leave(id);
        self.courses.retain(|_, it| it.session != id);
        // Another node waits for its answer: a process may be nowhere but here.
        let is_theirs = |place: &run::Place| matches!(place, run::Place::There(..));
        self.acts.retain(|_, (place, session, _)| *session != id || is_theirs(place));
        self.raised.retain(|it| it.session != Some(id));
        self.is_stale = true;
    }

    /// All that follows: events that were raised, deadlines, what must be looked out for.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        self.pass_answers(turn);
        self.expire(turn);
        self.pass_migrations(turn);
        self.run_raised(turn);
        self.diagnose(turn);
        self.run_raised(turn);
        let is_stale = std::mem::take(&mut self.is_stale) | self.shelf.take_change();
        if is_stale {
            self.drop_orphans();
            self.program(turn);
            let topics = self.topics();
            if topics != self.watched {
                turn.ground.watch(&topics);
                self.watched = topics;
            }
        }
        let mut is_due = self.take_move() | is_stale;
        let mut has_programmed = is_stale;
        while is_due {
            if self.has_programs && !has_programmed {
                self.program(turn);
            }
            self.follow(turn);
            // Somebody may have joined late.
            (is_due, has_programmed) = (self.take_move(), false);
        }
    }

    /// Whether any scope is another than when this was asked last.
    fn take_move(&mut self) -> bool {
        let scopes = self.seats.values_mut().map(|seat| &mut seat.session.scope);
        // Each is asked: the question takes its change away.
        scopes.fold(false, |has_moved, scope| scope.take_change() | has_moved)
    }

    /// In whom is looked out: in everybody whom a session observes, for what it waits for.
    fn follow(&mut self, turn: &mut Turn<'_>) {
        let mut followed = Followed::default();
        for seat in self.seats.values() {
            let scope = &seat.session.scope;
            followed.strangers |= scope.n_joins() > 0;
            let mut sorts: BTreeSet<FollowedActivity> =
                seat.stored.topics().filter_map(|it| it.sort()).collect();
            sorts.extend((!scope.is_empty()).then_some(FollowedActivity::Lives));
            for sort in sorts {
                followed.of.entry(sort).or_default().extend(scope.members());
            }
        }
        let finalizing = self.finalizing.iter().copied();
        if !self.finalizing.is_empty() {
            followed.of.entry(FollowedActivity::Calls).or_default().extend(finalizing);
        }
        if followed != self.followed {
            turn.ground.follow(&followed);
            let is_first = followed.strangers && !self.followed.strangers;
            self.followed = followed;
            if is_first {
                self.join_late(turn);
            }
        }
    }

    /// Forgets requests that wait for an event that was destroyed, also by another tool.
    fn drop_orphans(&mut self) {
        for seat in self.seats.values_mut() {
            let (events, shared) = (&seat.stored.events, &self.shared);
            seat.stored.requests.retain(|_, rule| match rule.watch.topic {
                EventKind::User(number) => events.contains(&number) || shared.contains(&number),
                _ => true,
            });
        }
    }

    fn topics(&self) -> BTreeSet<EventKind> {
        let mut topics = BTreeSet::new();
        for seat in self.seats.values() {
            if !seat.session.scope.is_empty() {
                // Children of those who are attached are attached, and who has ended is not.
                topics.extend([EventKind::Born, EventKind::Ended]);
            }
            topics.extend(seat.stored.topics());
        }
        topics.extend(self.diagnosed_topics());
        topics
    }

    const fn own(&self, conn: Conn) -> SessionId {
        SessionId { entry: self.node.0, conn }
    }

    const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The number that a basic request is answered with.
fn answer_id(id: Option<RequestId>) -> RequestId {
    id.unwrap_or_default()
}

/// A reply worth a line: at an occurrence, one that only says that all was done is not.
fn is_worth(reply: &Reply, is_occurrence: bool) -> bool {
    !is_occurrence || !reply.is_acknowledge()
}
