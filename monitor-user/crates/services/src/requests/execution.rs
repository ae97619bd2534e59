//! The execution of an action list, stage by stage, here and on other nodes, until its reply.
//!
//! The next stage begins when every node has replied for the previous one, or its deadline has
//! passed. Errors do not stop the execution.

use super::bind_vars::EventBindings;
use super::compile::ActionIndex;
use super::packet::{ClientReply, Packet, PacketBody, PacketReply, PartId};
use super::run::ResultTarget;
use super::{EngineOutput, RequestEngine, Turn, is_sent, reply_id};
use crate::{Registry, timeouts};
use monitor_event::outcome::{CallResult, Refusal};
use monitor_event::right::SessionId;
use monitor_event::thread::HeldThread;
use monitor_event::thread::Target;
use monitor_model::id::Ns;
use monitor_omis::route::{Route, route};
use monitor_omis::unify::AnswerSet;
use monitor_omis::{
    Arg, Basic, Dialect, Expr, Node, NodeRef, Reply, Request, Stage, Status, Value,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An action of a stage.
#[derive(Clone, Debug)]
enum ExecutionStep {
    Run(PacketBody),
    /// An action that the kernel has executed.
    InKernel(Basic),
    /// An action that cannot be called.
    Refuse(Basic, Refusal),
}

impl ExecutionStep {
    /// The timeout of the action.
    fn timeout(&self, registry: &Registry) -> Ns {
        let row = match self {
            Self::Run(what) => registry.spec(what.basic().service.as_str()),
            Self::InKernel(_) | Self::Refuse(..) => None,
        };
        row.map_or(timeouts::ACTION, |row| row.timeout)
    }
}

/// A running action list.
#[derive(Debug)]
pub struct Execution {
    /// The session that it belongs to.
    pub session: SessionId,
    /// When the current stage times out.
    pub deadline: Ns,
    stages: VecDeque<Vec<ExecutionStep>>,
    gatherings: Vec<AnswerSet>,
    /// Pending replies: member and node, and whether the request went through the total order.
    waiting: BTreeMap<(usize, Node), bool>,
    depth: u32,
    is_event: bool,
    /// The timeout of the current stage.
    timeout: Ns,
    /// A thread to release when the execution ends.
    held: Option<HeldThread>,
    /// Whether the thread is not held as strictly as the actions need.
    is_degraded: bool,
    /// The members that need a stricter hold.
    degraded_members: BTreeSet<usize>,
}

impl RequestEngine {
    /// Executes or stores a request of a local tool.
    pub(super) fn start(&mut self, session: SessionId, request: Request, turn: &mut Turn<'_>) {
        let running = self.executions.values().filter(|it| it.session == session).count();
        if running >= self.limits.executions {
            return self.refuse_execution(session, &request, turn);
        }
        let stages = match request.event {
            Some(_) => [vec![ExecutionStep::Run(PacketBody::Store(request))]].into(),
            None => {
                let steps = |basic| ExecutionStep::Run(PacketBody::Execute(basic));
                request.stages.into_iter().map(|it| it.0.into_iter().map(steps).collect()).collect()
            }
        };
        self.add_execution(Execution::new(session, stages, (0, false)), turn);
    }

    /// Executes the actions of a stored request at an event.
    pub(super) fn execute_stored(
        &mut self,
        session: SessionId,
        (request, done): (&Request, &BTreeSet<ActionIndex>),
        (bindings, depth): (&EventBindings, u32),
        turn: &mut Turn<'_>,
    ) {
        let step = |member: ActionIndex, action: &Basic| match bindings.bind(action) {
            _ if done.contains(&member) => ExecutionStep::InKernel(action.clone()),
            Ok(basic) => ExecutionStep::Run(PacketBody::Execute(basic)),
            Err(why) => ExecutionStep::Refuse(action.clone(), why),
        };
        let steps = |(s, stage): (usize, &Stage)| {
            stage.0.iter().enumerate().map(|(m, action)| step((s, m), action)).collect()
        };
        let stages = request.stages.iter().enumerate().map(steps).collect();
        let execution = Execution::new(session, stages, (depth, true));
        let (held, is_weak) = (bindings.held, bindings.is_degraded);
        self.add_execution(Execution { held, is_degraded: is_weak, ..execution }, turn);
    }

    fn add_execution(&mut self, execution: Execution, turn: &mut Turn<'_>) {
        let key = self.next_number();
        self.executions.insert(key, execution);
        self.advance(key, turn);
    }

    /// Runs stages until one has pending replies, or none is left.
    pub(super) fn advance(&mut self, key: u64, turn: &mut Turn<'_>) {
        while let Some(execution) = self.executions.get_mut(&key) {
            if !execution.waiting.is_empty() {
                execution.deadline = Ns(turn.now.0.saturating_add(execution.timeout.0));
                return;
            }
            let Some(stage) = execution.stages.pop_front() else { return self.finish(key, turn) };
            let longest = stage.iter().map(|step| step.timeout(&self.registry)).max();
            execution.timeout = longest.unwrap_or(timeouts::ACTION);
            for step in stage {
                self.run_step(key, step, turn);
            }
        }
    }

    fn run_step(&mut self, key: u64, step: ExecutionStep, turn: &mut Turn<'_>) {
        let Some(execution) = self.executions.get_mut(&key) else { return };
        let part = PartId { execution: key, member: execution.gatherings.len() };
        if let (true, ExecutionStep::Run(what)) = (execution.is_degraded, &step) {
            let row = self.registry.spec(what.basic().service.as_str());
            execution
                .degraded_members
                .extend(row.filter(|row| row.level.needs_hold()).map(|_| part.member));
        }
        let basic = match &step {
            ExecutionStep::Refuse(basic, _) | ExecutionStep::InKernel(basic) => basic,
            ExecutionStep::Run(what) => what.basic(),
        };
        execution.gatherings.push(AnswerSet::new(reply_id(basic.id), basic.service.clone()));
        match step {
            ExecutionStep::Refuse(_, why) => self.add_result(part, self.node, why.into()),
            ExecutionStep::InKernel(_) => self.add_result(part, self.node, CallResult::ok()),
            ExecutionStep::Run(what) => self.send_member(part, what, turn),
        }
    }

    /// Sends a member to each of its nodes, with that node's part of the parameters.
    fn send_member(&mut self, part: PartId, what: PacketBody, turn: &mut Turn<'_>) {
        for (nodes, what) in self.split_by_node(part, what) {
            let session = self.executions.get(&part.execution).map(|it| it.session);
            let Some(session) = session else { return };
            let has_ordered =
                self.sessions.get(&session).is_some_and(|it| it.n_pending_ordered > 0);
            if nodes == [self.node] && !has_ordered {
                self.execute_here(part, session, what, turn);
            } else {
                self.send_ordered(part, session, (nodes, what), turn);
            }
        }
    }

    fn execute_here(
        &mut self,
        part: PartId,
        session: SessionId,
        what: PacketBody,
        turn: &mut Turn<'_>,
    ) {
        let depth = self.executions.get(&part.execution).map_or(0, |it| it.depth);
        match self.execute(session, what, (ResultTarget::Local(part), depth), turn) {
            Some(done) => self.add_result(part, self.node, done),
            None => self.wait(part, self.node, false),
        }
    }

    fn send_ordered(
        &mut self,
        part: PartId,
        session: SessionId,
        (nodes, what): (Vec<Node>, PacketBody),
        turn: &mut Turn<'_>,
    ) {
        for node in &nodes {
            self.wait(part, *node, true);
        }
        let own = self.node;
        let depth = self.executions.get(&part.execution).map_or(0, |it| it.depth);
        let Some(state) = self.sessions.get_mut(&session) else { return };
        state.n_pending_ordered += nodes.len();
        state.nodes.extend(nodes.iter().filter(|node| **node != own));
        let (tool, dialect) = (state.session.tool, state.session.dialect);
        let packet = Packet { from: own, part, tool, dialect, nodes, depth, body: what };
        turn.out.push(EngineOutput::Packet(packet));
    }

    fn wait(&mut self, part: PartId, node: Node, is_ordered: bool) {
        if let Some(execution) = self.executions.get_mut(&part.execution) {
            execution.waiting.insert((part.member, node), is_ordered);
        }
    }

    /// Handles a reply of another node, or the result of a pending action.
    pub(super) fn handle_reply(&mut self, answered: PacketReply, turn: &mut Turn<'_>) {
        let PacketReply { node, part, result: done } = answered;
        if self.take_reply(part, &done) {
            return;
        }
        self.complete(part, node, done);
        self.advance(part.execution, turn);
    }

    fn complete(&mut self, part: PartId, node: Node, done: CallResult) {
        let Some(execution) = self.executions.get_mut(&part.execution) else { return };
        let Some(is_ordered) = execution.waiting.remove(&(part.member, node)) else { return };
        let state = self.sessions.get_mut(&execution.session).filter(|_| is_ordered);
        if let Some(state) = state {
            state.n_pending_ordered = state.n_pending_ordered.saturating_sub(1);
        }
        self.add_result(part, node, done);
    }

    fn add_result(&mut self, part: PartId, node: Node, done: CallResult) {
        let Some(execution) = self.executions.get_mut(&part.execution) else { return };
        let dialect = self.sessions.get(&execution.session).map(|it| it.session.dialect);
        if let Some(gathering) = execution.gatherings.get_mut(part.member) {
            let is_weak =
                done.status == Status::OK && execution.degraded_members.contains(&part.member);
            let status = if is_weak { Status::OK_DEGRADED } else { done.status };
            gathering.add(&[node], status, results(done, dialect.unwrap_or_default()));
        }
    }

    fn finish(&mut self, key: u64, turn: &mut Turn<'_>) {
        let Some(execution) = self.executions.remove(&key) else { return };
        if let Some(held) = &execution.held {
            turn.platform.resume_held(held);
        }
        let reply = Reply::unified(execution.gatherings);
        if is_sent(&reply, execution.is_event) && !reply.0.is_empty() {
            let (session, is_notice) = (execution.session, execution.is_event);
            self.send_to_tool(ClientReply { session, reply, is_notice }, turn);
        }
    }

    /// Times out the stages whose deadline has passed.
    pub(super) fn expire(&mut self, turn: &mut Turn<'_>) {
        let is_over = |it: &Execution| it.deadline <= turn.now;
        let over: Vec<u64> =
            self.executions.iter().filter(|(_, it)| is_over(it)).map(|(key, _)| *key).collect();
        for key in over {
            let within = self.executions.get(&key).map_or(timeouts::ACTION, |it| it.timeout);
            let text = format!("no reply within {} s", within.seconds());
            self.refuse_pending(key, |_| true, &Refusal::new(Status::TIMEOUT, text));
            self.advance(key, turn);
        }
    }

    /// Completes the pending replies of these nodes with a refusal.
    pub(super) fn refuse_pending(&mut self, key: u64, whose: impl Fn(Node) -> bool, why: &Refusal) {
        let Some(execution) = self.executions.get(&key) else { return };
        let silent: Vec<(usize, Node)> =
            execution.waiting.keys().filter(|(_, node)| whose(*node)).copied().collect();
        for (member, node) in silent {
            self.complete(PartId { execution: key, member }, node, why.clone().into());
        }
    }

    /// The nodes of a member, with their part of the parameters. Unknown nodes get a refusal.
    fn split_by_node(&mut self, part: PartId, what: PacketBody) -> Vec<(Vec<Node>, PacketBody)> {
        let basic = what.basic();
        let wanted = match &basic.nodes {
            Some(nodes) if nodes.is_empty() => Ok(self.all_nodes()),
            Some(nodes) => Ok(numbers(nodes)),
            None => Err(route(&values(basic), &|token| token.named_node().or(Some(self.node)))),
        };
        let parts = match wanted {
            Ok(nodes) => vec![(nodes, what)],
            Err(Route::AllNodes) => vec![(self.all_nodes(), what)],
            Err(Route::Parts { parts, .. }) => {
                parts.into_iter().map(|(node, args)| (vec![node], what.with_args(args))).collect()
            }
        };
        let there = |node: &Node| self.members.iter().any(|it| it.node == *node);
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for (nodes, what) in parts {
            let (near, far): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(there);
            unknown.extend(far);
            known.extend((!near.is_empty()).then_some((near, what)));
        }
        for node in unknown {
            let text = format!("no node {}: see list_nodes", node.0);
            self.add_result(part, node, Refusal::new(Status::NO_SUCH_NODE, text).into());
        }
        known
    }

    fn all_nodes(&self) -> Vec<Node> {
        self.members.iter().map(|it| it.node).collect()
    }

    fn refuse_execution(&mut self, session: SessionId, request: &Request, turn: &mut Turn<'_>) {
        let first = request.event.iter().chain(request.actions()).next();
        let most = format!("at most {}", self.limits.executions);
        let fault =
            first.map(|it| it.fault(Status::LIMIT, "one more running action list".into(), most));
        if let Some(fault) = fault {
            self.send_to_tool(
                ClientReply { session, reply: fault.reply(), is_notice: false },
                turn,
            );
        }
    }
}

impl Execution {
    /// The thread that is held for its event.
    pub fn held(&self) -> Option<Target> {
        self.held.map(|held| held.target)
    }

    fn new(
        session: SessionId,
        stages: VecDeque<Vec<ExecutionStep>>,
        (depth, is_event): (u32, bool),
    ) -> Self {
        let (gatherings, waiting) = (Vec::new(), BTreeMap::new());
        let (deadline, held) = (Ns(u64::MAX), None);
        let (is_degraded, timeout, degraded_members) = (false, timeouts::ACTION, BTreeSet::new());
        Self {
            session,
            deadline,
            stages,
            gatherings,
            waiting,
            depth,
            is_event,
            timeout,
            held,
            is_degraded,
            degraded_members,
        }
    }
}

impl PacketBody {
    /// The basic request that determines the nodes.
    fn basic(&self) -> &Basic {
        match self {
            Self::Execute(basic) => basic,
            Self::Store(request) => {
                request.event.as_ref().expect("only requests with an event are stored")
            }
            Self::RemoveSession => unreachable!("no execution has this message"),
        }
    }

    /// The same message with other parameters.
    fn with_args(&self, values: Vec<Value>) -> Self {
        let args = |basic: &Basic| Basic {
            args: values.iter().cloned().map(|it| Arg::from(Expr::Value(it))).collect(),
            ..basic.clone()
        };
        match self {
            Self::Execute(basic) => Self::Execute(args(basic)),
            Self::Store(request) => {
                Self::Store(Request { event: Some(args(self.basic())), ..request.clone() })
            }
            Self::RemoveSession => Self::RemoveSession,
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
    bound_values(basic.args.iter().map(|arg| arg.expr.clone()).collect())
}

/// The values of expressions whose variables are bound.
pub(super) fn bound_values(exprs: Vec<Expr>) -> Vec<Value> {
    let value = |expr| match expr {
        Expr::Value(value) => Some(value),
        Expr::Var(_) | Expr::List(_) => None,
    };
    exprs.into_iter().filter_map(value).collect()
}

/// The results after the status; the reason of a refusal in the extended dialect only.
fn results(done: CallResult, dialect: Dialect) -> Vec<Value> {
    let mut results = done.results;
    if let (Some(why), Dialect::Extended) = (done.reason, dialect) {
        results.extend([Value::from(why.errno), Value::from(why.text.as_str())]);
    }
    results
}
