//! A request as data: an event, if it is a conditional one, and what to do in which order.
//!
//! Nothing here is checked against the world: names, numbers and nodes are what the line said.

use super::fault::Fault;
use super::name::Name;
use super::number::Int;
use super::status::Status;
use super::value::{Expr, Var};

/// The number of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

/// The number that a tool gave to a basic request, to know its answers by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub Int);

/// One line of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// When to act; at once and once, if there is none.
    pub event: Option<Basic>,
    /// What to do: a stage begins when the one before has ended on all its nodes.
    pub stages: Vec<Stage>,
}

/// Basic requests that may run at the same time, in any order. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stage(pub Vec<Basic>);

/// A service, and with what it is called: `10 [1,2] stop([7])`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Basic {
    /// Its number. One without is an extension, and answered with the number 0.
    pub id: Option<RequestId>,
    /// The nodes it goes to; all of them, if the list is empty.
    /// One without a list is an extension: it goes where its objects are.
    pub nodes: Option<Vec<NodeRef>>,
    /// The service.
    pub service: Name,
    /// The parameters.
    pub args: Vec<Arg>,
    /// Where the name of the service stands.
    pub spot: Spot,
}

/// A parameter, and where it stands in its line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arg {
    /// The parameter.
    pub expr: Expr,
    /// Where it begins.
    pub spot: Spot,
}

/// A node of a list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeRef {
    /// This one.
    Number(Node),
    /// The one that the event says, and where it stands: `[$0]`.
    Var(Var, Spot),
}

/// A place in a line, in bytes from its beginning.
///
/// All places are equal: two requests are the same however they were spaced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spot(pub usize);

impl PartialEq for Spot {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Spot {}

impl std::hash::Hash for Spot {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl Request {
    /// Every action, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Basic> {
        self.stages.iter().flat_map(|stage| &stage.0)
    }

    /// The first variable that no event can fill in, with its place: there is no event, or the
    /// variable stands in the definition of the event itself.
    pub fn unbound(&self) -> Option<(&Var, Spot)> {
        match &self.event {
            Some(event) => event.variables().next(),
            None => self.actions().flat_map(Basic::variables).next(),
        }
    }

    /// The number of the line: that of the event, or of the first action.
    pub fn id(&self) -> Option<RequestId> {
        self.event.as_ref().or_else(|| self.actions().next()).and_then(|basic| basic.id)
    }
}

impl Basic {
    /// Every variable, with its place, or that of the parameter that it is in.
    pub fn variables(&self) -> impl Iterator<Item = (&Var, Spot)> {
        let nodes = self.nodes.iter().flatten().filter_map(|node| match node {
            NodeRef::Var(var, spot) => Some((var, *spot)),
            NodeRef::Number(_) => None,
        });
        let args = self
            .args
            .iter()
            .flat_map(|arg| arg.expr.variables().into_iter().map(|var| (var, arg.spot)));
        nodes.chain(args)
    }

    /// A mistake that shows only when the world is known, at the name of the service.
    pub fn fault(&self, status: Status, found: String, expected: String) -> Fault {
        Fault { status, at: self.spot.0, id: self.id, found, expected: expected.into() }
    }
}

impl From<Expr> for Arg {
    fn from(expr: Expr) -> Self {
        Self { expr, spot: Spot::default() }
    }
}
