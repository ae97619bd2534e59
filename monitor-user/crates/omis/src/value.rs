//! Values, and expressions that become values when an event occurs.
//!
//! A reply holds only values; a parameter of a request is an expression.
//! An expression without variables is always stored as a value, so an engine sees a list of
//! expressions only where a variable must be filled in.

use super::{Binary, Float, Int, Name, Text, Token};
use std::borrow::Cow;

/// A value: a result of a service, or a parameter without variables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// An integer.
    Integer(Int),
    /// A floating point number.
    Float(Float),
    /// A string.
    Text(Text),
    /// Bytes; an extension of OMIS 1.0.
    Binary(Binary),
    /// The typed name of an object; an extension of OMIS 1.0.
    Token(Token),
    /// A list of values of any types.
    List(Vec<Value>),
}

// The limits of `limit` are computed for this size.
const _: () = assert!(size_of::<Value>() <= 32);

/// A reference to a variable of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Var {
    /// `$1` is the first output parameter of the event; `$0` is the node where it occurred.
    Position(u32),
    /// `$time`; an extension of OMIS 1.0.
    Named(Name),
}

/// The named variables of every event. `$node` is `$0`.
pub const COMMON_VARIABLES: &[&str] = &["node", "proc", "thread", "time", "seq", "pc"];

/// A parameter of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A constant.
    Value(Value),
    /// A variable, bound when the event occurs.
    Var(Var),
    /// A list that contains a variable at some depth; built by `Expr::list`.
    List(Vec<Expr>),
}

impl Expr {
    /// Builds a list: a `Value` if no item contains a variable, else a `List`.
    pub fn list(items: Vec<Self>) -> Self {
        if items.iter().any(|item| !matches!(item, Self::Value(_))) {
            return Self::List(items);
        }
        let values = items.into_iter().filter_map(|item| match item {
            Self::Value(value) => Some(value),
            Self::Var(_) | Self::List(_) => None,
        });
        Self::Value(Value::List(values.collect()))
    }

    /// Evaluates the expression with the values that `look_up` returns for its variables.
    ///
    /// # Errors
    ///
    /// Returns the first variable for which `look_up` returns `None`.
    pub fn value<'e>(
        &'e self,
        look_up: &dyn Fn(&Var) -> Option<Value>,
    ) -> Result<Cow<'e, Value>, &'e Var> {
        match self {
            Self::Value(value) => Ok(Cow::Borrowed(value)),
            Self::Var(var) => look_up(var).map(Cow::Owned).ok_or(var),
            Self::List(items) => {
                let values = items.iter().map(|item| item.value(look_up).map(Cow::into_owned));
                Ok(Cow::Owned(Value::List(values.collect::<Result<_, _>>()?)))
            }
        }
    }

    /// Returns all variables of the expression, in order.
    pub fn variables(&self) -> Vec<&Var> {
        match self {
            Self::Value(_) => Vec::new(),
            Self::Var(var) => vec![var],
            Self::List(items) => items.iter().flat_map(Self::variables).collect(),
        }
    }

    /// Returns the nesting depth of lists; 0 for a scalar.
    pub fn depth(&self) -> usize {
        match self {
            Self::Value(value) => value.depth(),
            Self::Var(_) => 0,
            Self::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
        }
    }

    /// Estimates the printed length in bytes; `of_var` returns the length of a variable.
    pub fn weight(&self, of_var: &dyn Fn(&Var) -> usize) -> usize {
        match self {
            Self::Value(value) => value.weight(),
            Self::Var(var) => of_var(var),
            Self::List(items) => items
                .iter()
                .fold(2, |sum, item| sum.saturating_add(item.weight(of_var)).saturating_add(1)),
        }
    }

    /// Returns the expression with each variable replaced by the result of `replace`.
    pub fn substitute(&self, replace: &dyn Fn(&Var) -> Self) -> Self {
        match self {
            Self::Value(_) => self.clone(),
            Self::Var(var) => replace(var),
            Self::List(items) => {
                Self::list(items.iter().map(|item| item.substitute(replace)).collect())
            }
        }
    }
}

impl Value {
    /// Returns the type with its article, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Integer(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "a string",
            Self::Binary(_) => "a binary",
            Self::Token(_) => "a token",
            Self::List(_) => "a list",
        }
    }

    /// Returns the nesting depth of lists; 0 for a scalar.
    pub fn depth(&self) -> usize {
        match self {
            Self::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// Estimates the printed length in bytes.
    pub fn weight(&self) -> usize {
        match self {
            Self::Integer(_) | Self::Float(_) | Self::Token(_) => 1,
            Self::Text(text) => 2 + text.as_bytes().len(),
            Self::Binary(bytes) => 3 + bytes.as_bytes().len(),
            Self::List(items) => items.iter().fold(2, |sum, item| sum + 1 + item.weight()),
        }
    }

    /// Returns the integer, if this is one that fits `T`.
    pub fn integer<T: TryFrom<i128>>(&self) -> Option<T> {
        match self {
            Self::Integer(number) => number.get(),
            _ => None,
        }
    }

    /// Returns the string, if this is one.
    pub fn text(&self) -> Option<&Text> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the elements, if this is a list.
    pub fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the number, if this is a float or an integer.
    pub fn float(&self) -> Option<f64> {
        match self {
            Self::Float(number) => Some(number.0),
            // A double holds 53 bits; a parameter of type float accepts the rounding.
            Self::Integer(number) => number.get::<i64>().map(|number| number as f64),
            _ => None,
        }
    }

    /// Returns the bytes of a binary, or of a list of integers from 0 to 255.
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Self::Binary(bytes) => Some(Cow::Borrowed(bytes.as_bytes())),
            Self::List(items) => {
                items.iter().map(Self::integer).collect::<Option<_>>().map(Cow::Owned)
            }
            _ => None,
        }
    }
}

macro_rules! from_small {
    ($($small:ty)*) => {
        $(impl From<$small> for Value {
            fn from(number: $small) -> Self {
                Self::Integer(Int::from(number))
            }
        })*
    };
}

from_small! { u8 u16 u32 u64 i8 i16 i32 i64 }

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Float(Float(number))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<Token> for Value {
    fn from(token: Token) -> Self {
        Self::Token(token)
    }
}

impl From<Vec<Self>> for Value {
    fn from(items: Vec<Self>) -> Self {
        Self::List(items)
    }
}

impl From<Value> for Expr {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_a_variable_is_a_value() {
        let constant = Expr::list(vec![Value::from(1).into(), Expr::list(vec![])]);
        assert!(matches!(constant, Expr::Value(_)));
        assert!(matches!(Expr::list(vec![Expr::Var(Var::Position(1))]), Expr::List(_)));
    }

    #[test]
    fn variables_are_replaced_by_the_values_of_the_event() {
        let expr = Expr::list(vec![Value::from(1).into(), Expr::Var(Var::Position(2))]);
        let known = |var: &Var| (*var == Var::Position(2)).then(|| Value::from("x"));
        let value = expr.value(&known).unwrap().into_owned();
        assert_eq!(value, Value::from(vec![Value::from(1), Value::from("x")]));
        assert_eq!(expr.value(&|_| None), Err(&Var::Position(2)));
    }

    #[test]
    fn bytes_are_a_binary_or_a_list_of_small_integers() {
        let list = Value::from(vec![Value::from(0), Value::from(255)]);
        assert_eq!(list.bytes().as_deref(), Some(&[0, 255][..]));
        assert_eq!(Value::Binary(vec![1].into()).bytes().as_deref(), Some(&[1][..]));
        assert_eq!(Value::from(vec![Value::from(256)]).bytes(), None);
        assert_eq!(Value::from("ab").bytes(), None);
    }
}
