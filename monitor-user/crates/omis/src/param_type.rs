//! Types of the parameters of services, as the specification names them, and the type check.
//!
//! In: the declared types, and parameters. Out: the parameters in exactly the declared form, or
//! which of them does not fit. Does not check that an object exists; the engine does.
//! A variable fits every type until the event binds it; then `fit` checks its value.

use super::{Arg, Basic, Binary, Expr, Fault, Float, Status, Token, Value, token::TokenKind};
use std::fmt;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// An integer.
    Integer,
    /// A floating-point number; an integer is converted.
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
    /// A thread, by its token or number. A process, by number or token, means its first thread; in
    /// a list, all of its threads.
    Thread,
    /// A list of any length, `*` in the specification; a single value is a list of one.
    Many(&'static ParamType),
    /// A list of at least one, `+` in the specification; a single value is a list of one.
    Some(&'static ParamType),
}

/// A parameter as a service declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The name in the manual.
    pub name: &'static str,
    /// The type.
    pub param_type: ParamType,
}

/// A parameter that does not fit its declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// `ARITY`, `TYPE` or `RANGE`.
    pub status: Status,
    /// Index of the parameter; `None` if the number of parameters is wrong.
    pub arg: Option<usize>,
    /// What the request has.
    pub found: String,
    /// What the service takes.
    pub expected: String,
}

/// Converts parameters to the declared form: a scalar becomes a list where a list is declared, and
/// the remaining parameters become one list where the last declared type is `any*`.
///
/// # Errors
///
/// Fails if the number of parameters is wrong or one has another type.
pub fn arrange(takes: &[Param], args: &[Arg]) -> Result<Vec<Expr>, Mismatch> {
    let exprs = args.iter().map(|arg| arg.expr.clone());
    let mut exprs: Vec<Expr> = exprs.collect();
    if let Some((Param { param_type: ParamType::Many(ParamType::Any), .. }, before)) =
        takes.split_last()
        && exprs.len() != takes.len()
        && exprs.len() >= before.len()
    {
        let rest = exprs.split_off(before.len());
        exprs.push(Expr::list(rest));
    }
    if exprs.len() != takes.len() {
        return Err(Mismatch {
            status: Status::ARITY,
            arg: None,
            found: counted(args.len()),
            expected: format!("{}: ({})", takes.len(), listed(takes)),
        });
    }
    let pairs = takes.iter().zip(exprs).enumerate();
    let fit = |(index, (param, expr)): (usize, (&Param, Expr))| {
        param.param_type.fit_expr(expr).map_err(|mismatch| mismatch.at_param(index))
    };
    pairs.map(fit).collect()
}

/// Prints parameters as in a prototype: `process* tids, integer sig`.
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

impl ParamType {
    /// Converts a value to this type.
    ///
    /// # Errors
    ///
    /// Fails if the value has another type or is out of range.
    pub fn fit(&self, value: Value) -> Result<Value, Mismatch> {
        match self {
            Self::Many(item) | Self::Some(item) => {
                let items = match value {
                    Value::List(items) => items,
                    scalar => vec![scalar],
                };
                if items.is_empty() && matches!(self, Self::Some(_)) {
                    return Err(self.mismatch(Status::RANGE, "an empty list"));
                }
                let fit = |value: Value| item.fit_item(value).map_err(|error| error.within(self));
                Ok(Value::List(items.into_iter().map(fit).collect::<Result<_, _>>()?))
            }
            single => single.fit_single(value),
        }
    }

    fn fit_expr(&self, expr: Expr) -> Result<Expr, Mismatch> {
        match (self, expr) {
            (_, Expr::Value(value)) => self.fit(value).map(Expr::Value),
            (_, Expr::Var(var)) => Ok(Expr::Var(var)),
            (Self::Many(item) | Self::Some(item), Expr::List(items)) => {
                let fit = |expr| item.fit_expr(expr).map_err(|error| error.within(self));
                Ok(Expr::list(items.into_iter().map(fit).collect::<Result<_, _>>()?))
            }
            (Self::Any | Self::Bytes, list) => Ok(list),
            _ => Err(self.mismatch(Status::TYPE, "a list")),
        }
    }

    /// In a list, an object may represent all objects that it contains: a node its processes.
    fn fit_item(&self, value: Value) -> Result<Value, Mismatch> {
        let containers = match self {
            Self::Process => &[TokenKind::Node][..],
            Self::Thread => &[TokenKind::Node][..],
            _ => &[],
        };
        match value {
            Value::Token(token) if containers.contains(&token.kind) => Ok(value),
            value => self.fit(value),
        }
    }

    fn fit_single(&self, value: Value) -> Result<Value, Mismatch> {
        match (self, &value) {
            (Self::Any, _)
            | (Self::Text, Value::Text(_))
            | (Self::Bytes, Value::Binary(_))
            | (Self::Float, Value::Float(_))
            | (Self::Integer | Self::Process | Self::Thread, Value::Integer(_)) => Ok(value),
            (Self::Float, Value::Integer(_)) => {
                let number =
                    value.float().ok_or_else(|| self.mismatch(Status::RANGE, "too much"))?;
                Ok(Value::Float(Float(number)))
            }
            (Self::Bytes, Value::List(_)) => {
                let bytes =
                    value.bytes().map(|bytes| Value::Binary(Binary::from(bytes.into_owned())));
                bytes.ok_or_else(|| self.mismatch(Status::RANGE, "an element that is not a byte"))
            }
            (Self::Node, Value::Integer(number)) => match number.get::<u32>() {
                Some(_) => Ok(value),
                None => Err(self.mismatch(Status::RANGE, &number.to_string())),
            },
            (Self::Node, Value::Token(Token { kind: TokenKind::Node, .. }))
            | (Self::Process, Value::Token(Token { kind: TokenKind::Process, .. }))
            | (
                Self::Thread,
                Value::Token(Token { kind: TokenKind::Thread | TokenKind::Process, .. }),
            ) => Ok(value),
            (_, Value::Token(token)) => Err(self.mismatch(Status::TYPE, &format!("`{token}`"))),
            (_, other) => Err(self.mismatch(Status::TYPE, other.kind())),
        }
    }

    fn mismatch(&self, status: Status, found: &str) -> Mismatch {
        Mismatch { status, arg: None, found: found.to_owned(), expected: self.to_string() }
    }
}

impl Mismatch {
    fn at_param(self, index: usize) -> Self {
        Self { arg: Some(index), ..self }
    }

    fn within(self, list: &ParamType) -> Self {
        Self { expected: list.to_string(), ..self }
    }

    /// Converts to a fault at the position of the parameter in its request.
    pub fn fault(self, basic: &Basic) -> Fault {
        let arg = self.arg.and_then(|index| basic.args.get(index));
        Fault {
            status: self.status,
            at: arg.map_or(basic.pos, |arg| arg.pos).0,
            id: basic.id,
            service: Some(basic.service.clone()),
            found: self.found,
            expected: self.expected.into(),
        }
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.param_type, self.name)
    }
}

impl fmt::Display for ParamType {
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

    const fn param(name: &'static str, kind: ParamType) -> Param {
        Param { name, param_type: kind }
    }

    const KILL: &[Param] =
        &[param("tids", ParamType::Many(&ParamType::Process)), param("sig", ParamType::Integer)];
    const PRINT: &[Param] = &[param("args", ParamType::Many(&ParamType::Any))];
    const WRITE: &[Param] = &[
        param("tid", ParamType::Process),
        param("addr", ParamType::Integer),
        param("bytes", ParamType::Bytes),
    ];
    const FLOATS: &[Param] = &[param("values", ParamType::Some(&ParamType::Float))];
    const STEP: &[Param] = &[param("thread", ParamType::Thread)];
    const NODE: &[Param] = &[param("node", ParamType::Node)];

    /// Compares the arranged parameters, or the position and text of the fault.
    #[track_caller]
    fn check(takes: &[Param], line: &str, want: &str) {
        let request = parse::request(line.as_bytes(), Dialect::Extended).unwrap();
        let basic = request.actions().next().unwrap();
        let got = match arrange(takes, &basic.args) {
            Ok(exprs) => listed_exprs(&exprs),
            Err(mismatch) => {
                let fault = mismatch.fault(basic);
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
    fn the_remaining_parameters_become_a_list_of_any() {
        check(PRINT, r#"1 [] print(1,2.5,"x")"#, r#"[1,2.5,"x"]"#);
        check(PRINT, "1 [] print([1,2])", "[1,2]");
        check(PRINT, "1 [] print([1],[2])", "[[1],[2]]");
        check(PRINT, "1 [] print()", "[]");
    }

    #[test]
    fn bytes_are_a_list_or_a_binary() {
        check(WRITE, "1 [] w(7,0x10,[1,255])", "7 16 #2:01ff");
        check(WRITE, "1 [] w(7,0x10,#1:aa)", "7 16 #1:aa");
        let what = "RANGE at 14: found an element that is not a byte, expected bytes";
        check(WRITE, "1 [] w(7,0x10,[256])", what);
    }

    #[test]
    fn a_list_may_name_objects_that_contain_the_targets() {
        check(KILL, "1 [] kill([n_1],15)", "[n_1] 15");
        check(KILL, "1 [] kill([t_1_2],15)", "TYPE at 10: found `t_1_2`, expected process*");
        check(WRITE, "1 [] w(n_1,0,[])", "TYPE at 7: found `n_1`, expected process");
    }

    #[test]
    fn a_process_is_accepted_for_its_first_thread() {
        check(STEP, "1 [] step(7)", "7");
        check(STEP, "1 [] step(p_1_7)", "p_1_7");
        check(STEP, "1 [] step(t_1_8)", "t_1_8");
        check(STEP, "1 [] step(n_1)", "TYPE at 10: found `n_1`, expected thread");
    }

    #[test]
    fn a_mismatch_has_the_position_of_the_parameter() {
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
