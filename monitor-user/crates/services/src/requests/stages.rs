//! Runs action lists, stage by stage, here and on other nodes, until their reply.
//!
//! The next stage begins when every node has replied for the previous one, or its deadline has
//! passed. Errors do not stop the execution.

use super::execution::{Execution, ExecutionStep};
use super::packet::{ClientReply, Packet, PacketBody, PacketReply, PartId, ResultTarget};
use super::{EngineOutput, RequestEngine, Turn, bind_vars::bound_values};
use crate::{Class, timeouts};
use monitor_event::{CallResult, Refusal, SessionId};
use monitor_model::Ns;
use monitor_omis::route::{Route, route};
use monitor_omis::{
    Basic, Dialect, Node, NodeRef, Reply, Request, Status, Value, unify::AnswerSet,
};

impl RequestEngine {
    /// Executes or stores a request of a local tool.
    pub(super) fn start(&mut self, session: SessionId, request: Request, turn: &mut Turn<'_>) {
        let running = self.executions.values().filter(|it| it.session == session).count();
        if running >= self.shared.limits.executions {
            return self.refuse_execution(session, &request, turn);
        }
        self.add_execution(Execution::for_request(session, request), turn);
    }

    /// Starts an execution.
    pub(super) fn add_execution(&mut self, execution: Execution, turn: &mut Turn<'_>) {
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
            let longest = stage.iter().map(|step| step.timeout(&self.shared.registry)).max();
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
            let row = self.shared.registry.spec(what.basic().service.as_str());
            execution
                .degraded_members
                .extend(row.filter(|row| row.level.needs_hold()).map(|_| part.member));
        }
        let basic = step.basic();
        execution
            .gatherings
            .push(AnswerSet::new(basic.id.unwrap_or_default(), basic.service.clone()));
        match step {
            ExecutionStep::Refuse(_, why) => self.add_result(part, self.shared.node, why.into()),
            ExecutionStep::InKernel(_) => self.add_result(part, self.shared.node, CallResult::ok()),
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
            if nodes == [self.shared.node] && !has_ordered {
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
            Some(done) => self.add_result(part, self.shared.node, done),
            None => self.wait(part, self.shared.node, false),
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
        let own = self.shared.node;
        let execution = self.executions.get(&part.execution);
        let (depth, is_event) = execution.map_or((0, false), |it| (it.depth, it.is_event));
        let Some(state) = self.sessions.get_mut(&session) else { return };
        state.n_pending_ordered += nodes.len();
        state.nodes.extend(nodes.iter().filter(|node| **node != own));
        let (tool, dialect) = (state.session.tool, state.session.dialect);
        let packet = Packet { from: own, part, tool, dialect, nodes, depth, is_event, body: what };
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
        let dialect = dialect.unwrap_or_default();
        let service = execution.gatherings.get(part.member).map(AnswerSet::service);
        let spec = service.and_then(|name| self.shared.registry.spec(name.as_str()));
        // The results that other classes have here are extensions (OMIS 1.0, section 5.1).
        let has_results = spec.is_some_and(|spec| spec.class() == Class::Synchronous);
        let results = match dialect {
            Dialect::Strict if !has_results => Vec::new(),
            _ => done.results,
        };
        execution.add_result(part.member, node, CallResult { results, ..done }, dialect);
    }

    fn finish(&mut self, key: u64, turn: &mut Turn<'_>) {
        let Some(execution) = self.executions.remove(&key) else { return };
        if let Some(held) = execution.held {
            self.pass_hold_on(key, held);
            self.release_hold(held, turn);
        }
        let reply = Reply::unified(execution.gatherings);
        // A bare acknowledgement of an event's actions is not sent.
        let is_sent = !execution.is_event || !reply.is_acknowledge();
        if is_sent && !reply.0.is_empty() {
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
            None => {
                Err(route(&values(basic), &|token| token.named_node().or(Some(self.shared.node))))
            }
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
        let most = format!("at most {}", self.shared.limits.executions);
        let fault =
            first.map(|it| it.fault(Status::LIMIT, "one more running action list".into(), most));
        let dialect = self.sessions.get(&session).map(|it| it.session.dialect).unwrap_or_default();
        if let Some(fault) = fault {
            let reply = fault.reply(self.shared.node, dialect);
            self.send_to_tool(ClientReply { session, reply, is_notice: false }, turn);
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
