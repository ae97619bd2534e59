//! A list of actions that runs: stage by stage, here and on other nodes, until it is answered.
//!
//! The next stage begins when every node has answered for the one before, or its deadline has
//! passed. Errors do not stop the list.

use super::compile::Member;
use super::fill::Occasion;
use super::packet::{Answered, Packet, PartId, Spoken, What};
use super::run::Place;
use super::{Machine, Output, Turn, answer_id, is_worth};
use crate::{Registry, within};
use monitor_event::outcome::{Done, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::HeldThread;
use monitor_event::thread::Target;
use monitor_model::id::Ns;
use monitor_omis::localise::{Located, localise};
use monitor_omis::unify::Gathering;
use monitor_omis::{
    Arg, Basic, Dialect, Expr, Node, NodeRef, Reply, Request, Stage, Status, Value,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Something to do in a stage.
#[derive(Clone, Debug)]
enum Step {
    Do(What),
    /// An action that the kernel has done.
    Done(Basic),
    /// An action that cannot be called.
    Refuse(Basic, Refusal),
}

impl Step {
    /// How long it may take.
    fn within(&self, registry: &Registry) -> Ns {
        let row = match self {
            Self::Do(what) => registry.row(what.basic().service.as_str()),
            Self::Done(_) | Self::Refuse(..) => None,
        };
        row.map_or(within::ACT, |row| row.within)
    }
}

/// A running list.
#[derive(Debug)]
pub struct Course {
    /// Whose.
    pub session: SessionId,
    /// When the stage is given up.
    pub deadline: Ns,
    stages: VecDeque<Vec<Step>>,
    gatherings: Vec<Gathering>,
    /// Who has not answered for which member yet; whether that went through the one order.
    waiting: BTreeMap<(usize, Node), bool>,
    depth: u32,
    is_occurrence: bool,
    /// How long its stage may take.
    within: Ns,
    /// A thread that goes on when the list has ended.
    held: Option<HeldThread>,
    /// Whether it is held in a weaker way than its actions need, or not at all.
    is_weak: bool,
    /// The members that need it.
    weak: BTreeSet<usize>,
}

impl Machine {
    /// A request of a tool of ours.
    pub(super) fn start(&mut self, session: SessionId, request: Request, turn: &mut Turn<'_>) {
        let running = self.courses.values().filter(|it| it.session == session).count();
        if running >= self.limits.courses {
            return self.too_many(session, &request, turn);
        }
        let stages = match request.event {
            Some(_) => [vec![Step::Do(What::Store(request))]].into(),
            None => {
                let steps = |basic| Step::Do(What::Do(basic));
                request.stages.into_iter().map(|it| it.0.into_iter().map(steps).collect()).collect()
            }
        };
        self.begin(Course::new(session, stages, (0, false)), turn);
    }

    /// The actions of a stored request, at an occurrence.
    pub(super) fn occur(
        &mut self,
        session: SessionId,
        (request, done): (&Request, &BTreeSet<Member>),
        (occasion, depth): (&Occasion, u32),
        turn: &mut Turn<'_>,
    ) {
        let step = |member: Member, action: &Basic| match occasion.fill(action) {
            _ if done.contains(&member) => Step::Done(action.clone()),
            Ok(basic) => Step::Do(What::Do(basic)),
            Err(why) => Step::Refuse(action.clone(), why),
        };
        let steps = |(s, stage): (usize, &Stage)| {
            stage.0.iter().enumerate().map(|(m, action)| step((s, m), action)).collect()
        };
        let stages = request.stages.iter().enumerate().map(steps).collect();
        let course = Course::new(session, stages, (depth, true));
        let (held, is_weak) = (occasion.held, occasion.is_weak);
        self.begin(Course { held, is_weak, ..course }, turn);
    }

    fn begin(&mut self, course: Course, turn: &mut Turn<'_>) {
        let key = self.number();
        self.courses.insert(key, course);
        self.advance(key, turn);
    }

    /// Runs stages until one has to be waited for, or none is left.
    pub(super) fn advance(&mut self, key: u64, turn: &mut Turn<'_>) {
        while let Some(course) = self.courses.get_mut(&key) {
            if !course.waiting.is_empty() {
                course.deadline = Ns(turn.now.0.saturating_add(course.within.0));
                return;
            }
            let Some(stage) = course.stages.pop_front() else { return self.finish(key, turn) };
            let longest = stage.iter().map(|step| step.within(&self.registry)).max();
            course.within = longest.unwrap_or(within::ACT);
            for step in stage {
                self.step(key, step, turn);
            }
        }
    }

    fn step(&mut self, key: u64, step: Step, turn: &mut Turn<'_>) {
        let Some(course) = self.courses.get_mut(&key) else { return };
        let part = PartId { course: key, member: course.gatherings.len() };
        if let (true, Step::Do(what)) = (course.is_weak, &step) {
            let row = self.registry.row(what.basic().service.as_str());
            course.weak.extend(row.filter(|row| row.level.needs_hold()).map(|_| part.member));
        }
        let basic = match &step {
            Step::Refuse(basic, _) | Step::Done(basic) => basic,
            Step::Do(what) => what.basic(),
        };
        course.gatherings.push(Gathering::new(answer_id(basic.id), basic.service.clone()));
        match step {
            Step::Refuse(_, why) => self.add(part, self.node, why.into()),
            Step::Done(_) => self.add(part, self.node, Done::ok()),
            Step::Do(what) => self.send(part, what, turn),
        }
    }

    /// Gives a member to each of its nodes, with what of it is for that node.
    fn send(&mut self, part: PartId, what: What, turn: &mut Turn<'_>) {
        for (nodes, what) in self.parts(part, what) {
            let session = self.courses.get(&part.course).map(|it| it.session);
            let Some(session) = session else { return };
            let has_ordered = self.seats.get(&session).is_some_and(|it| it.n_ordered > 0);
            if nodes == [self.node] && !has_ordered {
                self.do_here(part, session, what, turn);
            } else {
                self.order(part, session, (nodes, what), turn);
            }
        }
    }

    fn do_here(&mut self, part: PartId, session: SessionId, what: What, turn: &mut Turn<'_>) {
        let depth = self.courses.get(&part.course).map_or(0, |it| it.depth);
        match self.perform(session, what, (Place::Here(part), depth), turn) {
            Some(done) => self.add(part, self.node, done),
            None => self.wait(part, self.node, false),
        }
    }

    fn order(
        &mut self,
        part: PartId,
        session: SessionId,
        (nodes, what): (Vec<Node>, What),
        turn: &mut Turn<'_>,
    ) {
        for node in &nodes {
            self.wait(part, *node, true);
        }
        let own = self.node;
        let depth = self.courses.get(&part.course).map_or(0, |it| it.depth);
        let Some(seat) = self.seats.get_mut(&session) else { return };
        seat.n_ordered += nodes.len();
        seat.nodes.extend(nodes.iter().filter(|node| **node != own));
        let (tool, dialect) = (seat.session.tool, seat.session.dialect);
        let packet = Packet { from: own, part, tool, dialect, nodes, depth, what };
        turn.out.push(Output::Order(packet));
    }

    fn wait(&mut self, part: PartId, node: Node, is_ordered: bool) {
        if let Some(course) = self.courses.get_mut(&part.course) {
            course.waiting.insert((part.member, node), is_ordered);
        }
    }

    /// An answer has come, from another node or of an act that went on.
    pub(super) fn answered(&mut self, answered: Answered, turn: &mut Turn<'_>) {
        let Answered { node, part, done } = answered;
        if self.has_come(part, &done) {
            return;
        }
        self.take(part, node, done);
        self.advance(part.course, turn);
    }

    fn take(&mut self, part: PartId, node: Node, done: Done) {
        let Some(course) = self.courses.get_mut(&part.course) else { return };
        let Some(is_ordered) = course.waiting.remove(&(part.member, node)) else { return };
        let seat = self.seats.get_mut(&course.session).filter(|_| is_ordered);
        if let Some(seat) = seat {
            seat.n_ordered = seat.n_ordered.saturating_sub(1);
        }
        self.add(part, node, done);
    }

    fn add(&mut self, part: PartId, node: Node, done: Done) {
        let Some(course) = self.courses.get_mut(&part.course) else { return };
        let dialect = self.seats.get(&course.session).map(|it| it.session.dialect);
        if let Some(gathering) = course.gatherings.get_mut(part.member) {
            let is_weak = done.status == Status::OK && course.weak.contains(&part.member);
            let status = if is_weak { Status::OK_DEGRADED } else { done.status };
            gathering.add(&[node], status, results(done, dialect.unwrap_or_default()));
        }
    }

    fn finish(&mut self, key: u64, turn: &mut Turn<'_>) {
        let Some(course) = self.courses.remove(&key) else { return };
        if let Some(held) = &course.held {
            turn.ground.go_on(held);
        }
        let reply = Reply::unified(course.gatherings);
        if is_worth(&reply, course.is_occurrence) && !reply.0.is_empty() {
            let (session, is_told) = (course.session, course.is_occurrence);
            self.speak(Spoken { session, reply, is_told }, turn);
        }
    }

    /// Gives up the stages whose time is over.
    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        let is_over = |it: &Course| it.deadline <= turn.now;
        let over: Vec<u64> =
            self.courses.iter().filter(|(_, it)| is_over(it)).map(|(key, _)| *key).collect();
        for key in over {
            let within = self.courses.get(&key).map_or(within::ACT, |it| it.within);
            let text = format!("no answer within {} s", within.seconds());
            self.give_up(key, |_| true, &Refusal::new(Status::TIMEOUT, text));
            self.advance(key, turn);
        }
    }

    /// Waits no more for these nodes.
    pub(super) fn give_up(&mut self, key: u64, whose: impl Fn(Node) -> bool, why: &Refusal) {
        let Some(course) = self.courses.get(&key) else { return };
        let silent: Vec<(usize, Node)> =
            course.waiting.keys().filter(|(_, node)| whose(*node)).copied().collect();
        for (member, node) in silent {
            self.take(PartId { course: key, member }, node, why.clone().into());
        }
    }

    /// The nodes of a member, and what of it is for them. Who is not there is answered for.
    fn parts(&mut self, part: PartId, what: What) -> Vec<(Vec<Node>, What)> {
        let basic = what.basic();
        let wanted = match &basic.nodes {
            Some(nodes) if nodes.is_empty() => Ok(self.all()),
            Some(nodes) => Ok(numbers(nodes)),
            None => Err(localise(&values(basic), &|token| token.named_node().or(Some(self.node)))),
        };
        let parts = match wanted {
            Ok(nodes) => vec![(nodes, what)],
            Err(Located::Everywhere) => vec![(self.all(), what)],
            Err(Located::Parts { parts, .. }) => {
                parts.into_iter().map(|(node, args)| (vec![node], what.with(args))).collect()
            }
        };
        let there = |node: &Node| self.members.iter().any(|it| it.node == *node);
        let mut known = Vec::new();
        let mut strangers = Vec::new();
        for (nodes, what) in parts {
            let (near, far): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(there);
            strangers.extend(far);
            known.extend((!near.is_empty()).then_some((near, what)));
        }
        for node in strangers {
            let text = format!("there is no node {}: see list_nodes", node.0);
            self.add(part, node, Refusal::new(Status::NO_SUCH_NODE, text).into());
        }
        known
    }

    fn all(&self) -> Vec<Node> {
        self.members.iter().map(|it| it.node).collect()
    }

    fn too_many(&mut self, session: SessionId, request: &Request, turn: &mut Turn<'_>) {
        let first = request.event.iter().chain(request.actions()).next();
        let most = format!("at most {}", self.limits.courses);
        let fault = first.map(|it| it.fault(Status::LIMIT, "one more running list".into(), most));
        if let Some(fault) = fault {
            self.speak(Spoken { session, reply: fault.reply(), is_told: false }, turn);
        }
    }
}

impl Course {
    /// The thread that its event holds.
    pub fn held(&self) -> Option<Target> {
        self.held.map(|held| held.target)
    }

    fn new(
        session: SessionId,
        stages: VecDeque<Vec<Step>>,
        (depth, is_occurrence): (u32, bool),
    ) -> Self {
        let (gatherings, waiting) = (Vec::new(), BTreeMap::new());
        let (deadline, held) = (Ns(u64::MAX), None);
        let (is_weak, within, weak) = (false, within::ACT, BTreeSet::new());
        Self {
            session,
            deadline,
            stages,
            gatherings,
            waiting,
            depth,
            is_occurrence,
            within,
            held,
            is_weak,
            weak,
        }
    }
}

impl What {
    /// What says where it goes.
    fn basic(&self) -> &Basic {
        match self {
            Self::Do(basic) => basic,
            Self::Store(request) => {
                request.event.as_ref().expect("only requests with an event are stored")
            }
            Self::Leave => unreachable!("no list holds it"),
        }
    }

    /// The same with other parameters.
    fn with(&self, values: Vec<Value>) -> Self {
        let args = |basic: &Basic| Basic {
            args: values.iter().cloned().map(|it| Arg::from(Expr::Value(it))).collect(),
            ..basic.clone()
        };
        match self {
            Self::Do(basic) => Self::Do(args(basic)),
            Self::Store(request) => {
                Self::Store(Request { event: Some(args(self.basic())), ..request.clone() })
            }
            Self::Leave => Self::Leave,
        }
    }
}

fn numbers(nodes: &[NodeRef]) -> Vec<Node> {
    let mut numbers: Vec<Node> = Vec::new();
    for node in nodes {
        if let NodeRef::Number(node) = node
            && !numbers.contains(node)
        {
            numbers.push(*node);
        }
    }
    numbers
}

fn values(basic: &Basic) -> Vec<Value> {
    plain(basic.args.iter().map(|arg| arg.expr.clone()).collect())
}

/// The values of expressions that hold no variable any more.
pub(super) fn plain(exprs: Vec<Expr>) -> Vec<Value> {
    let value = |expr| match expr {
        Expr::Value(value) => Some(value),
        Expr::Var(_) | Expr::List(_) => None,
    };
    exprs.into_iter().filter_map(value).collect()
}

/// The results after the status; the reason of a refusal only where extensions are allowed.
fn results(done: Done, dialect: Dialect) -> Vec<Value> {
    let mut results = done.results;
    if let (Some(why), Dialect::Extended) = (done.reason, dialect) {
        results.extend([Value::from(why.errno), Value::from(why.text.as_str())]);
    }
    results
}
