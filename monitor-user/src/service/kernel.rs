//! What an action is when the kernel runs it, at the event itself.
//!
//! In: a call as it stands in a stored request. Out: steps, or nothing where the kernel cannot do
//! it. The engine puts the steps of a request together (`engine/ask/compile`), the ground makes a
//! list of the kernel of them. Nothing here knows where a value or a cell is.

use super::counter::Shelf;
use super::session::Session;
use crate::backend::rule::act::Move;
use crate::backend::rule::held::{Area, Spread};
use crate::omis::{Expr, RequestId, Value, Var};

/// Something that tools count in and the kernel can change. What it holds is together what the
/// kernel has counted and what actions in user space have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Meter {
    /// Whose it is, among all of this node, for ever; one may have a meter of each kind.
    pub number: u64,
    /// What it is.
    pub kind: MeterKind,
}

/// What a meter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MeterKind {
    /// How many values it was told.
    Count,
    /// Their sum.
    Sum,
    /// The smallest.
    Least,
    /// The largest.
    Most,
    /// How often each size came: a histogram of times.
    Sizes,
    /// The same of numbers, with their sum and extremes.
    Spread,
    /// A level, and the area below it.
    Level,
    /// The last records.
    Trace,
    /// A timer of each thread.
    ThreadTimer,
    /// A timer of each process.
    ProcessTimer,
    /// A timer for all.
    NodeTimer,
}

/// The extremes of a level, which are meters of its instrument, too.
pub const EXTREMES: [MeterKind; 2] = [MeterKind::Least, MeterKind::Most];

/// What the kernel has counted in a meter.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Metered {
    /// Nothing.
    #[default]
    Nothing,
    /// A count, a sum or an extreme.
    Value(i64),
    /// The largest of each size, and how many have the size.
    Sizes(Vec<(u64, u64)>),
    /// Numbers.
    Spread(Spread),
    /// A level.
    Level(Area),
}

/// A number that a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// This one.
    Known(i64),
    /// `$1` and so on, by its place from 1.
    Told(u32),
    /// `$time`.
    Time,
    /// `$thread`.
    Thread,
    /// `$pc`.
    Pc,
}

impl Operand {
    /// A parameter as a number that the kernel will know; nothing, if it is none or no number.
    pub fn from_expr(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Value(value) => value.integer().map(Self::Known),
            Expr::Var(Var::Position(0)) | Expr::List(_) => None,
            Expr::Var(Var::Position(place)) => Some(Self::Told(*place)),
            Expr::Var(Var::Named(name)) => match name.as_str() {
                "time" => Some(Self::Time),
                "thread" => Some(Self::Thread),
                "pc" => Some(Self::Pc),
                _ => None,
            },
        }
    }
}

/// A step.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// These meters are told a value.
    Tell(Operand, Vec<Meter>),
    /// The level of an instrument, by its number, changes or is set. If the kernel has not got it,
    /// it begins there at the last.
    Move(Move<Operand>, u64, i64),
    /// A trace has a record of these.
    Record(Vec<Operand>, Meter),
    /// A signal to whoever meets the event.
    Signal(u32),
    /// A timer begins.
    Begin(Meter),
    /// A timer ends, and these are told its nanoseconds.
    End(Meter, Vec<Meter>),
    /// A stored request runs from now on.
    Enable(RequestId),
    /// It runs no more.
    Disable(RequestId),
    /// An event of the tool's own is raised.
    Raise(i64, Vec<Operand>),
}

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
