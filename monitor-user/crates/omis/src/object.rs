//! Objects that values name.
//!
//! In: a value. Out: the numbers or tokens in it. Does not check that the objects exist; the
//! engine does.

use super::{Int, Token, Value};

/// An object that a value names. It may not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// By its number, as in OMIS 1.0.
    Number(Int),
    /// By its token.
    Token(Token),
}

/// Objects that a list names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Objects {
    /// The empty list: all objects.
    All,
    /// The named objects.
    Only(Vec<Object>),
}

impl Object {
    /// Returns the object that a value names: an integer or a token.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(Self::Number(*number)),
            Value::Token(token) => Some(Self::Token(*token)),
            _ => None,
        }
    }
}

impl Objects {
    /// Returns the objects that a list of integers and tokens names.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value.list()? {
            [] => Some(Self::All),
            items => items.iter().map(Object::from_value).collect::<Option<_>>().map(Self::Only),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_all_objects_or_some() {
        let node = Token::from_text("n_1").unwrap();
        let list = |items: Vec<Value>| Objects::from_value(&Value::List(items));
        assert_eq!(list(vec![]), Some(Objects::All));
        let some = Objects::Only(vec![Object::Number(7.into()), Object::Token(node)]);
        assert_eq!(list(vec![Value::from(7), Value::from(node)]), Some(some));
        assert_eq!(list(vec![Value::from("x")]), None);
        assert_eq!(Objects::from_value(&Value::from(7)), None);
    }
}
