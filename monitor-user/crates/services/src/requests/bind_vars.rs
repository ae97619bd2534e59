//! Binding of an action's variables to the values of an event.
//!
//! In: a stored action. Out: the action with values only, or why it cannot be called.

use monitor_event::{HeldThread, Refusal};
use monitor_omis::{Arg, Basic, Expr, Name, Node, NodeRef, Status, Value, Var};

/// The values of the variables for one event and one session.
#[derive(Clone, Debug)]
pub struct EventBindings {
    /// `$0`, `$node`: the node of the event.
    pub node: Node,
    /// `$1` and so on.
    pub params: Vec<Value>,
    /// `$proc`: the number of the process that hit it; -1 if none.
    pub process: Value,
    /// `$thread`: the thread id; -1 if unknown.
    pub thread: Value,
    /// `$time`: nanoseconds since boot.
    pub time: Value,
    /// `$seq`: sequence number among the events of the request, from 1.
    pub seq: Value,
    /// `$pc`: the program counter; -1 if unknown.
    pub pc: Value,
    /// The thread that is held until the actions are done.
    pub held: Option<HeldThread>,
    /// Whether the thread should be held alone, but its whole process is stopped or nothing is.
    pub is_degraded: bool,
}

impl EventBindings {
    fn value(&self, var: &Var) -> Option<Value> {
        match var {
            Var::Position(0) => Some(Value::from(self.node.0)),
            Var::Position(place) => {
                let place = usize::try_from(*place).ok()?.checked_sub(1)?;
                self.params.get(place).cloned()
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
    ///
    /// # Errors
    /// If the event has no value for a variable, or the value is not of the needed type.
    pub fn bind(&self, action: &Basic) -> Result<Basic, Refusal> {
        let arg = |arg: &Arg| {
            let value = arg.expr.value(&|var| self.value(var)).map_err(unbound)?;
            Ok(Arg { expr: Expr::Value(value.into_owned()), pos: arg.pos })
        };
        let nodes = match &action.nodes {
            Some(nodes) => {
                Some(nodes.iter().map(|node| self.node(node)).collect::<Result<_, _>>()?)
            }
            None => None,
        };
        let args = action.args.iter().map(arg).collect::<Result<_, Refusal>>()?;
        let service = action.service.clone();
        Ok(Basic { id: action.id, nodes, service, args, pos: action.pos })
    }

    fn node(&self, node: &NodeRef) -> Result<NodeRef, Refusal> {
        let NodeRef::Var(var, _) = node else { return Ok(node.clone()) };
        let value = self.value(var).ok_or_else(|| unbound(var))?;
        let number = match &value {
            Value::Token(token) => token.named_node(),
            other => other.integer().map(Node),
        };
        number.map(NodeRef::Number).ok_or_else(|| {
            Refusal::new(Status::TYPE, format!("`{var}` is {value}, which is not a node"))
        })
    }
}

fn unbound(var: &Var) -> Refusal {
    Refusal::new(Status::UNBOUND_VAR, format!("the event has no value for `{var}`"))
}

/// The values of expressions whose variables are bound.
pub fn bound_values(exprs: Vec<Expr>) -> Vec<Value> {
    let value = |expr| match expr {
        Expr::Value(value) => Some(value),
        Expr::Var(_) | Expr::List(_) => None,
    };
    exprs.into_iter().filter_map(value).collect()
}
