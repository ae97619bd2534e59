//! A request as data: an event, if it is conditional, and the actions in their order.
//!
//! Produced by `parse`, printed by `print`. Services, objects and nodes are not checked here: they
//! may not exist.

use super::{BytePos, Expr, Fault, Name, Node, RequestId, Status, Var};

/// One line sent by a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// When to act; `None` to act once, immediately.
    pub event: Option<Basic>,
    /// The actions: a stage begins when the previous one has ended on all its nodes.
    pub stages: Vec<Stage>,
}

/// Basic requests that may run at the same time, in any order; at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stage(pub Vec<Basic>);

/// A basic request: a service and its parameters, `10 [1,2] stop([7])`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Basic {
    /// The number. It may be omitted (an extension); the answer then has the number 0.
    pub id: Option<RequestId>,
    /// The nodes it is sent to; all nodes if the list is empty.
    /// Without a list (an extension) it is routed by its objects.
    pub nodes: Option<Vec<NodeRef>>,
    /// The name of the service.
    pub service: Name,
    /// The parameters.
    pub args: Vec<Arg>,
    /// Position of the name of the service.
    pub pos: BytePos,
}

/// A parameter and its position in the line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arg {
    /// The expression.
    pub expr: Expr,
    /// Position of its first byte.
    pub pos: BytePos,
}

/// An element of a node list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeRef {
    /// A node by its number.
    Number(Node),
    /// A node that the event sets, `[$0]`, and the position of the variable.
    Var(Var, BytePos),
}

impl Request {
    /// Iterates over the actions, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Basic> {
        self.stages.iter().flat_map(|stage| &stage.0)
    }

    /// Returns the first variable that no event can set, with its position: the request has no
    /// event, or the variable is part of the event itself.
    pub fn unbound(&self) -> Option<(&Var, BytePos)> {
        match &self.event {
            Some(event) => event.variables().next(),
            None => self.actions().flat_map(Basic::variables).next(),
        }
    }

    /// Returns the basic request that gives the line its number: the event, or the first action.
    pub fn head(&self) -> Option<&Basic> {
        self.event.as_ref().or_else(|| self.actions().next())
    }

    /// Returns the number of the line.
    pub fn id(&self) -> Option<RequestId> {
        self.head().and_then(|basic| basic.id)
    }
}

impl Basic {
    /// Iterates over the variables, each with its position or that of its parameter.
    pub fn variables(&self) -> impl Iterator<Item = (&Var, BytePos)> {
        let nodes = self.nodes.iter().flatten().filter_map(|node| match node {
            NodeRef::Var(var, pos) => Some((var, *pos)),
            NodeRef::Number(_) => None,
        });
        let args = self
            .args
            .iter()
            .flat_map(|arg| arg.expr.variables().into_iter().map(|var| (var, arg.pos)));
        nodes.chain(args)
    }

    /// Builds a fault at the name of the service, for errors found after parsing.
    pub fn fault(&self, status: Status, found: String, expected: String) -> Fault {
        let (id, service) = (self.id, Some(self.service.clone()));
        Fault { status, at: self.pos.0, id, service, found, expected: expected.into() }
    }
}

impl From<Expr> for Arg {
    fn from(expr: Expr) -> Self {
        Self { expr, pos: BytePos::default() }
    }
}
