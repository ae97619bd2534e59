//! What a service takes, in the words of the specification, and whether parameters are that.
//!
//! In: the declared kinds, and parameters. Out: the parameters in exactly the declared form, or
//! what is wrong with which of them. That the number of a process is one, the engine finds out.
//! A variable is any kind until the event has said what it is; then `fit` looks again.

use super::fault::Fault;
use super::number::Float;
use super::request::{Arg, Basic};
use super::status::Status;
use super::text::Binary;
use super::token::{Token, TokenKind};
use super::value::{Expr, Value};
use std::fmt;

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer.
    Integer,
    /// A floating point number; an integer will do.
    Float,
    /// A string.
    Text,
    /// Bytes: a list of integers from 0 to 255, or a binary.
    Bytes,
    /// Any value.
    Any,
    /// A node, by number or token.
    Node,
    /// A process, by number or token.
    Process,
    /// A thread, by number or token.
    Thread,
    /// A list of any length, `*` in the specification; a single value will do.
    Many(&'static Kind),
    /// A list of at least one, `+` in the specification; a single value will do.
    Some(&'static Kind),
}

/// A parameter as a service declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// What the manual calls it.
    pub name: &'static str,
    /// What it must be.
    pub kind: Kind,
}

/// What does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// `ARITY`, `TYPE` or `RANGE`.
    pub status: Status,
    /// Which parameter, from 0; none if their number is wrong.
    pub arg: Option<usize>,
    /// What it is.
    pub found: String,
    /// What was wanted.
    pub expected: String,
}

/// The parameters as the service declares them: a scalar in a list where a list is wanted, the
/// rest in one list where the last is `any*`.
pub fn arrange(takes: &[Param], args: &[Arg]) -> Result<Vec<Expr>, Misfit> {
    let exprs = args.iter().map(|arg| arg.expr.clone());
    let mut exprs: Vec<Expr> = exprs.collect();
    if let Some((Param { kind: Kind::Many(Kind::Any), .. }, before)) = takes.split_last()
        && exprs.len() != takes.len()
        && exprs.len() >= before.len()
    {
        let rest = exprs.split_off(before.len());
        exprs.push(Expr::list(rest));
    }
    if exprs.len() != takes.len() {
        return Err(Misfit {
            status: Status::ARITY,
            arg: None,
            found: counted(args.len()),
            expected: format!("{}: ({})", takes.len(), listed(takes)),
        });
    }
    let pairs = takes.iter().zip(exprs).enumerate();
    pairs.map(|(place, (it, expr))| it.kind.fit_expr(expr).map_err(|why| why.of(place))).collect()
}

/// Parameters as a prototype has them: `process* tids, integer sig`.
pub fn listed(takes: &[Param]) -> String {
    let names: Vec<String> = takes.iter().map(Param::to_string).collect();
    names.join(", ")
}

fn counted(n_args: usize) -> String {
    match n_args {
        0 => "no parameter".to_owned(),
        1 => "1 parameter".to_owned(),
        more => format!("{more} parameters"),
    }
}

impl Kind {
    /// The value as this kind.
    pub fn fit(&self, value: Value) -> Result<Value, Misfit> {
        match self {
            Self::Many(item) | Self::Some(item) => {
                let items = match value {
                    Value::List(items) => items,
                    scalar => vec![scalar],
                };
                if items.is_empty() && matches!(self, Self::Some(_)) {
                    return Err(self.misfit(Status::RANGE, "an empty list"));
                }
                let fit = |value: Value| item.fit_item(value).map_err(|it| it.within(self));
                Ok(Value::List(items.into_iter().map(fit).collect::<Result<_, _>>()?))
            }
            single => single.fit_single(value),
        }
    }

    fn fit_expr(&self, expr: Expr) -> Result<Expr, Misfit> {
        match (self, expr) {
            (_, Expr::Value(value)) => self.fit(value).map(Expr::Value),
            (_, Expr::Var(var)) => Ok(Expr::Var(var)),
            (Self::Many(item) | Self::Some(item), Expr::List(items)) => {
                let fit = |expr| item.fit_expr(expr).map_err(|it| it.within(self));
                Ok(Expr::list(items.into_iter().map(fit).collect::<Result<_, _>>()?))
            }
            (Self::Any | Self::Bytes, list) => Ok(list),
            _ => Err(self.misfit(Status::TYPE, "a list")),
        }
    }

    /// In a list an object may stand for all that are below it: a node for its processes.
    fn fit_item(&self, value: Value) -> Result<Value, Misfit> {
        let above = match self {
            Self::Process => &[TokenKind::Node][..],
            Self::Thread => &[TokenKind::Node, TokenKind::Process][..],
            _ => &[],
        };
        match value {
            Value::Token(token) if above.contains(&token.kind) => Ok(value),
            value => self.fit(value),
        }
    }

    fn fit_single(&self, value: Value) -> Result<Value, Misfit> {
        match (self, &value) {
            (Self::Any, _)
            | (Self::Text, Value::Text(_))
            | (Self::Bytes, Value::Binary(_))
            | (Self::Float, Value::Float(_))
            | (Self::Integer | Self::Process | Self::Thread, Value::Integer(_)) => Ok(value),
            (Self::Float, Value::Integer(_)) => {
                let number = value.float().ok_or_else(|| self.misfit(Status::RANGE, "too much"))?;
                Ok(Value::Float(Float(number)))
            }
            (Self::Bytes, Value::List(_)) => {
                let bytes =
                    value.bytes().map(|bytes| Value::Binary(Binary::from(bytes.into_owned())));
                bytes.ok_or_else(|| self.misfit(Status::RANGE, "an element that is no byte"))
            }
            (Self::Node, Value::Integer(number)) => match number.get::<u32>() {
                Some(_) => Ok(value),
                None => Err(self.misfit(Status::RANGE, &number.to_string())),
            },
            (Self::Node, Value::Token(Token { kind: TokenKind::Node, .. }))
            | (Self::Process, Value::Token(Token { kind: TokenKind::Process, .. }))
            | (Self::Thread, Value::Token(Token { kind: TokenKind::Thread, .. })) => Ok(value),
            (_, Value::Token(token)) => Err(self.misfit(Status::TYPE, &format!("`{token}`"))),
            (_, other) => Err(self.misfit(Status::TYPE, other.kind())),
        }
    }

    fn misfit(&self, status: Status, found: &str) -> Misfit {
        Misfit { status, arg: None, found: found.to_owned(), expected: self.to_string() }
    }
}

impl Misfit {
    fn of(self, place: usize) -> Self {
        Self { arg: Some(place), ..self }
    }

    fn within(self, list: &Kind) -> Self {
        Self { expected: list.to_string(), ..self }
    }

    /// As a fault of the line that the request stood in.
    pub fn fault(self, basic: &Basic) -> Fault {
        let arg = self.arg.and_then(|place| basic.args.get(place));
        Fault {
            status: self.status,
            at: arg.map_or(basic.spot, |arg| arg.spot).0,
            id: basic.id,
            found: self.found,
            expected: self.expected.into(),
        }
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer => f.write_str("integer"),
            Self::Float => f.write_str("floating"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Any => f.write_str("any"),
            Self::Node => f.write_str("node"),
            Self::Process => f.write_str("process"),
            Self::Thread => f.write_str("thread"),
            Self::Many(item) => write!(f, "{item}*"),
            Self::Some(item) => write!(f, "{item}+"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialect::Dialect;
    use super::super::parse;
    use super::*;

    const fn param(name: &'static str, kind: Kind) -> Param {
        Param { name, kind }
    }

    const KILL: &[Param] =
        &[param("tids", Kind::Many(&Kind::Process)), param("sig", Kind::Integer)];
    const PRINT: &[Param] = &[param("args", Kind::Many(&Kind::Any))];
    const WRITE: &[Param] =
        &[param("tid", Kind::Process), param("addr", Kind::Integer), param("bytes", Kind::Bytes)];
    const FLOATS: &[Param] = &[param("values", Kind::Some(&Kind::Float))];
    const NODE: &[Param] = &[param("node", Kind::Node)];

    /// The parameters as they are arranged, or the place and the text of what is wrong.
    #[track_caller]
    fn check(takes: &[Param], line: &str, want: &str) {
        let request = parse::request(line.as_bytes(), Dialect::Extended).unwrap();
        let basic = request.actions().next().unwrap();
        let got = match arrange(takes, &basic.args) {
            Ok(exprs) => listed_exprs(&exprs),
            Err(misfit) => {
                let fault = misfit.fault(basic);
                format!("{} at {}: {fault}", fault.status.name().unwrap(), fault.at)
            }
        };
        assert_eq!(got, want, "{line}");
    }

    fn listed_exprs(exprs: &[Expr]) -> String {
        let texts: Vec<String> = exprs.iter().map(Expr::to_string).collect();
        texts.join(" ")
    }

    #[test]
    fn a_scalar_is_a_list_of_one() {
        check(KILL, "1 [] kill(7,15)", "[7] 15");
        check(KILL, "1 [] kill([7,p_1_2],15)", "[7,p_1_2] 15");
        check(FLOATS, "1 [] f(2)", "[2.0]");
    }

    #[test]
    fn the_rest_is_a_list_where_any_is_wanted() {
        check(PRINT, r#"1 [] print(1,2.5,"x")"#, r#"[1,2.5,"x"]"#);
        check(PRINT, "1 [] print([1,2])", "[1,2]");
        check(PRINT, "1 [] print([1],[2])", "[[1],[2]]");
        check(PRINT, "1 [] print()", "[]");
    }

    #[test]
    fn bytes_come_in_two_forms() {
        check(WRITE, "1 [] w(7,0x10,[1,255])", "7 16 #2:01ff");
        check(WRITE, "1 [] w(7,0x10,#1:aa)", "7 16 #1:aa");
        let what = "RANGE at 14: found an element that is no byte, expected bytes";
        check(WRITE, "1 [] w(7,0x10,[256])", what);
    }

    #[test]
    fn a_list_may_name_what_is_above() {
        check(KILL, "1 [] kill([n_1],15)", "[n_1] 15");
        check(KILL, "1 [] kill([t_1_2],15)", "TYPE at 10: found `t_1_2`, expected process*");
        check(WRITE, "1 [] w(n_1,0,[])", "TYPE at 7: found `n_1`, expected process");
    }

    #[test]
    fn what_does_not_fit_is_named_where_it_stands() {
        check(
            KILL,
            "1 [] kill([7])",
            "ARITY at 5: found 1 parameter, expected 2: (process* tids, integer sig)",
        );
        check(KILL, r#"1 [] kill([7],"x")"#, "TYPE at 14: found a string, expected integer");
        check(KILL, "1 [] kill([7,1.5],9)", "TYPE at 10: found a float, expected process*");
        check(FLOATS, "1 [] f([])", "RANGE at 7: found an empty list, expected floating+");
        check(NODE, "1 [] f(-1)", "RANGE at 7: found -1, expected node");
    }
}
