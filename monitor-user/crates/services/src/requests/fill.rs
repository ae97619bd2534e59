//! What an occurrence tells, in the place of the variables of the actions.
//!
//! In: an action as it was stored. Out: one that holds values only, or why it cannot be called.

use monitor_event::outcome::Refusal;
use monitor_event::thread::HeldThread;
use monitor_omis::{Arg, Basic, Expr, Name, Node, NodeRef, Status, Value, Var};

/// What an occurrence tells one session.
#[derive(Clone, Debug)]
pub struct Occasion {
    /// Where it occurred: `$0`, `$node`.
    pub node: Node,
    /// `$1` and so on.
    pub told: Vec<Value>,
    /// `$proc`: the number of the process that met it; -1 if none did.
    pub process: Value,
    /// `$thread`: the thread; -1 if it is not known.
    pub thread: Value,
    /// `$time`: when, in nanoseconds since boot.
    pub time: Value,
    /// `$seq`: the how manieth of its request it is, from 1.
    pub seq: Value,
    /// `$pc`: where in the program; -1 if it is not known.
    pub pc: Value,
    /// The thread that waits until the actions are done.
    pub held: Option<HeldThread>,
    /// Whether it should have been held alone, and stands with its process, or does not stand.
    pub is_weak: bool,
}

impl Occasion {
    fn value(&self, var: &Var) -> Option<Value> {
        match var {
            Var::Position(0) => Some(Value::from(self.node.0)),
            Var::Position(place) => {
                let place = usize::try_from(*place).ok()?.checked_sub(1)?;
                self.told.get(place).cloned()
            }
            Var::Named(name) => self.named(name),
        }
    }

    fn named(&self, name: &Name) -> Option<Value> {
        Some(match name.as_str() {
            "node" => Value::from(self.node.0),
            "proc" => self.process.clone(),
            "thread" => self.thread.clone(),
            "time" => self.time.clone(),
            "seq" => self.seq.clone(),
            "pc" => self.pc.clone(),
            _ => return None,
        })
    }

    /// The action with values for its variables.
    pub fn fill(&self, action: &Basic) -> Result<Basic, Refusal> {
        let arg = |arg: &Arg| {
            let value = arg.expr.value(&|var| self.value(var)).map_err(unbound)?;
            Ok(Arg { expr: Expr::Value(value.into_owned()), spot: arg.spot })
        };
        let nodes = match &action.nodes {
            Some(nodes) => {
                Some(nodes.iter().map(|node| self.node(node)).collect::<Result<_, _>>()?)
            }
            None => None,
        };
        let args = action.args.iter().map(arg).collect::<Result<_, Refusal>>()?;
        let service = action.service.clone();
        Ok(Basic { id: action.id, nodes, service, args, spot: action.spot })
    }

    fn node(&self, node: &NodeRef) -> Result<NodeRef, Refusal> {
        let NodeRef::Var(var, _) = node else { return Ok(node.clone()) };
        let value = self.value(var).ok_or_else(|| unbound(var))?;
        let number = match &value {
            Value::Token(token) => token.named_node(),
            other => other.integer().map(Node),
        };
        number.map(NodeRef::Number).ok_or_else(|| {
            Refusal::new(Status::TYPE, format!("`{var}` is {value}, which is no node"))
        })
    }
}

fn unbound(var: &Var) -> Refusal {
    Refusal::new(Status::UNBOUND_VAR, format!("the event told nothing for `{var}`"))
}
