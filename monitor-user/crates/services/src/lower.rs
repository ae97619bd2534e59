//! Lowering of actions to steps that the kernel runs at the event itself.
//!
//! In: a call of a stored request. Out: steps, or `None` where the kernel cannot run it. The engine
//! joins the steps of a request (`requests/compile`), the platform makes a rule program of them.
//! Knows no addresses of values and map entries.

use super::{Session, counter::InstrumentRegistry};
use monitor_event::action::{Operand, Step};
use monitor_omis::{Expr, Value, Var};

/// A call of a stored request, as lowering sees it.
pub struct StoredCall<'b> {
    /// Its parameters in the order of the specification; variables are not bound yet.
    pub args: &'b [Expr],
    /// The session that stored it.
    pub session: &'b Session,
    /// The instruments of the node.
    pub instruments: &'b InstrumentRegistry,
}

impl StoredCall<'_> {
    /// A parameter, if it is a constant.
    pub fn value(&self, place: usize) -> Option<&Value> {
        match self.args.get(place)? {
            Expr::Value(value) => Some(value),
            Expr::Var(_) | Expr::List(_) => None,
        }
    }

    /// A parameter as an integer operand.
    pub fn operand(&self, place: usize) -> Option<Operand> {
        self.args.get(place).and_then(Operand::from_expr)
    }

    /// Whether a parameter is the process that hits the event: `$proc`, or `$1`, which is that
    /// process for calls and signals.
    pub fn is_event_process(&self, place: usize) -> bool {
        let is_it = |expr: &Expr| match expr {
            Expr::Var(Var::Named(name)) => name.as_str() == "proc",
            Expr::Var(Var::Position(place)) => *place == 1,
            Expr::Value(_) | Expr::List(_) => false,
        };
        match self.args.get(place) {
            Some(Expr::List(list)) => matches!(&list[..], [one] if is_it(one)),
            Some(one) => is_it(one),
            None => false,
        }
    }

    /// A list parameter as integer operands.
    pub fn operands(&self, place: usize) -> Option<Vec<Operand>> {
        match self.args.get(place)? {
            Expr::List(list) => list.iter().map(Operand::from_expr).collect(),
            Expr::Value(Value::List(list)) => {
                list.iter().map(|it| it.integer().map(Operand::Known)).collect()
            }
            Expr::Value(_) | Expr::Var(_) => None,
        }
    }
}

/// Lowers a call to steps; `None` where the kernel cannot run it.
pub type LowerFn = fn(&StoredCall<'_>) -> Option<Vec<Step>>;
