//! What an action is when the kernel runs it, at the event itself.
//!
//! In: a call as it stands in a stored request. Out: steps, or nothing where the kernel cannot do
//! it. The engine puts the steps of a request together (`engine/ask/compile`), the ground makes a
//! list of the kernel of them. Nothing here knows where a value or a cell is.

use super::counter::Shelf;
use super::session::Session;
use monitor_event::action::{Operand, Step};
use monitor_omis::{Expr, Value, Var};

/// A call as it stands in a stored request, for whoever makes steps of it.
pub struct Bound<'b> {
    /// Its parameters, as the row takes them; variables are not filled in yet.
    pub args: &'b [Expr],
    /// Whose it is.
    pub session: &'b Session,
    /// The instruments of the node.
    pub shelf: &'b Shelf,
}

impl Bound<'_> {
    /// A parameter that is written out.
    pub fn value(&self, place: usize) -> Option<&Value> {
        match self.args.get(place)? {
            Expr::Value(value) => Some(value),
            Expr::Var(_) | Expr::List(_) => None,
        }
    }

    /// A parameter as a number.
    pub fn operand(&self, place: usize) -> Option<Operand> {
        self.args.get(place).and_then(Operand::from_expr)
    }

    /// Whether a parameter is the process that meets the event: `$proc`, or the first that it
    /// tells, which it is of calls and signals.
    pub fn is_who_meets_it(&self, place: usize) -> bool {
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

    /// A list as numbers.
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

/// Makes steps of a call; nothing, where the kernel cannot do it.
pub type Lower = fn(&Bound<'_>) -> Option<Vec<Step>>;
