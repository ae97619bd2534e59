//! A running action list: its stages, its pending replies and the answers so far.

use super::{bind_vars::EventBindings, packet::PacketBody, stored::ActionIndex};
use crate::{Registry, timeouts};
use monitor_event::{CallResult, HeldThread, Refusal, SessionId};
use monitor_model::Ns;
use monitor_omis::{Basic, Dialect, Node, Request, Stage, Status, Value, unify::AnswerSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An action of a stage.
#[derive(Clone, Debug)]
pub enum ExecutionStep {
    /// A message to execute or store it.
    Run(PacketBody),
    /// An action that the kernel has executed.
    InKernel(Basic),
    /// An action that cannot be called.
    Refuse(Basic, Refusal),
}

impl ExecutionStep {
    /// The timeout of the action.
    pub fn timeout(&self, registry: &Registry) -> Ns {
        let row = match self {
            Self::Run(what) => registry.spec(what.basic().service.as_str()),
            Self::InKernel(_) | Self::Refuse(..) => None,
        };
        row.map_or(timeouts::ACTION, |row| row.timeout)
    }

    /// The basic request of the action.
    pub fn basic(&self) -> &Basic {
        match self {
            Self::Run(body) => body.basic(),
            Self::InKernel(basic) | Self::Refuse(basic, _) => basic,
        }
    }
}

/// A running action list.
#[derive(Debug)]
pub struct Execution {
    /// The session that it belongs to.
    pub session: SessionId,
    /// When the current stage times out.
    pub deadline: Ns,
    /// The stages that follow.
    pub stages: VecDeque<Vec<ExecutionStep>>,
    /// The answers of each member.
    pub gatherings: Vec<AnswerSet>,
    /// Pending replies: member and node, and whether the request went through the total order.
    pub waiting: BTreeMap<(usize, Node), bool>,
    /// Its nesting in events that raise each other.
    pub depth: u32,
    /// Whether an event started it.
    pub is_event: bool,
    /// The timeout of the current stage.
    pub timeout: Ns,
    /// A thread to release when the execution ends.
    pub held: Option<HeldThread>,
    /// Whether the thread is not held as strictly as the actions need.
    pub is_degraded: bool,
    /// The members that need a stricter hold.
    pub degraded_members: BTreeSet<usize>,
}

impl Execution {
    /// Executes or stores a request of a tool.
    pub fn for_request(session: SessionId, request: Request) -> Self {
        let stages = match request.event {
            Some(_) => [vec![ExecutionStep::Run(PacketBody::Store(request))]].into(),
            None => {
                let step = |basic| ExecutionStep::Run(PacketBody::Execute(basic));
                request.stages.into_iter().map(|it| it.0.into_iter().map(step).collect()).collect()
            }
        };
        Self::new(session, stages)
    }

    /// Executes the actions of a stored request at an event, except those that the kernel has
    /// executed.
    pub fn for_event(
        session: SessionId,
        (request, done): (&Request, &BTreeSet<ActionIndex>),
        (bindings, depth): (&EventBindings, u32),
    ) -> Self {
        let step = |member: ActionIndex, action: &Basic| match bindings.bind(action) {
            _ if done.contains(&member) => ExecutionStep::InKernel(action.clone()),
            Ok(basic) => ExecutionStep::Run(PacketBody::Execute(basic)),
            Err(why) => ExecutionStep::Refuse(action.clone(), why),
        };
        let steps = |(s, stage): (usize, &Stage)| {
            stage.0.iter().enumerate().map(|(m, action)| step((s, m), action)).collect()
        };
        let stages = request.stages.iter().enumerate().map(steps).collect();
        let (held, is_degraded) = (bindings.held, bindings.is_degraded);
        Self { depth, is_event: true, held, is_degraded, ..Self::new(session, stages) }
    }

    fn new(session: SessionId, stages: VecDeque<Vec<ExecutionStep>>) -> Self {
        Self {
            session,
            deadline: Ns(u64::MAX),
            stages,
            gatherings: Vec::new(),
            waiting: BTreeMap::new(),
            depth: 0,
            is_event: false,
            timeout: timeouts::ACTION,
            held: None,
            is_degraded: false,
            degraded_members: BTreeSet::new(),
        }
    }

    /// Adds the result of a member on one node.
    pub fn add_result(&mut self, member: usize, node: Node, done: CallResult, dialect: Dialect) {
        let Some(gathering) = self.gatherings.get_mut(member) else { return };
        let is_weak = done.status == Status::OK && self.degraded_members.contains(&member);
        let status = if is_weak { Status::OK_DEGRADED } else { done.status };
        gathering.add(&[node], status, results(done, dialect));
    }
}

/// The results after the status; the reason of a refusal in the extended dialect only.
fn results(done: CallResult, dialect: Dialect) -> Vec<Value> {
    let mut results = done.results;
    if let (Some(why), Dialect::Extended) = (done.reason, dialect) {
        results.extend([Value::from(why.errno), Value::from(why.text.as_str())]);
    }
    results
}
