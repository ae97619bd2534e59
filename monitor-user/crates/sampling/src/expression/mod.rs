//! A condition on processes as a user types it: `cpu > 10 and comm ~ "mpi"`.
//!
//! In: a text. Out: an [`Expression`], which admits a process or a group or does not, or a
//! [`ParseError`] with its position. Reads nothing: the fields of [`Expression::fields`] must have
//! been read. A value that is absent matches no comparison.

mod parse;
#[cfg(test)]
mod tests;
mod token;

pub use parse::parse;

pub use monitor_model::field::SHORT;
use monitor_model::{FieldValue, Group, GroupBy, Process, ProcessField, name::matches_pattern};
use std::borrow::Cow;

/// Maximum length of a text, in bytes.
pub const LONGEST: usize = 1024;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// Both hold.
    And(Box<Self>, Box<Self>),
    /// One of them holds.
    Or(Box<Self>, Box<Self>),
    /// It does not hold.
    Not(Box<Self>),
    /// A field is in this relation to a number.
    Number(ProcessField, Relation, f64),
    /// A field is this text.
    Same(ProcessField, String),
    /// A field matches a pattern.
    Like(ProcessField, Pattern),
    /// The name matches a pattern: a word without a comparison.
    Named(Pattern),
}

/// How two numbers are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Equal.
    Equal,
    /// Less.
    Less,
    /// Less or equal.
    AtMost,
    /// Greater.
    More,
    /// Greater or equal.
    AtLeast,
}

/// A pattern that a part of a text matches, regardless of case; `*` stands for any letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

/// Why a text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// The position, in bytes.
    pub at: usize,
    /// The message, in one line.
    pub message: String,
}

impl ParseError {
    /// The message with the name of the option and the column in its text.
    pub fn in_text(&self, option: &str, text: &str) -> String {
        let column = text[..self.at].chars().count() + 1;
        format!("{option}, column {column}: {}", self.message)
    }
}

/// An object that a condition can be evaluated for.
pub trait Subject {
    /// The value of a field that is a number, flag or letter.
    fn number(&self, field: ProcessField) -> Option<FieldValue<'static>>;
    /// The value of a text field.
    fn text(&self, field: ProcessField) -> Option<Cow<'_, str>>;
    /// Its name.
    fn name(&self) -> Cow<'_, str>;
}

impl Subject for Process {
    fn number(&self, field: ProcessField) -> Option<FieldValue<'static>> {
        self.row.value(field)
    }

    fn text(&self, field: ProcessField) -> Option<Cow<'_, str>> {
        match field {
            ProcessField::Comm => Some(self.comm()),
            // As in groups: a user without a name is a number.
            ProcessField::User if self.text.user.is_none() => {
                Some(Cow::Owned(self.row.get(ProcessField::Uid)?.to_string()))
            }
            _ => match self.value(field)? {
                FieldValue::Text(text) => Some(Cow::Borrowed(text)),
                FieldValue::Letter(letter) => Some(Cow::Owned(letter.into())),
                _ => None,
            },
        }
    }

    fn name(&self) -> Cow<'_, str> {
        self.text.cmdline.as_deref().map_or_else(|| self.comm(), Cow::Borrowed)
    }
}

impl Subject for Group {
    fn number(&self, field: ProcessField) -> Option<FieldValue<'static>> {
        self.row.value(field)
    }

    fn text(&self, field: ProcessField) -> Option<Cow<'_, str>> {
        (field == self.by.field() && self.by != GroupBy::Container)
            .then(|| Cow::Borrowed(&*self.name))
    }

    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.name)
    }
}

impl Expression {
    /// Whether the condition holds.
    pub fn admits(&self, of: &impl Subject) -> bool {
        match self {
            Self::And(a, b) => a.admits(of) && b.admits(of),
            Self::Or(a, b) => a.admits(of) || b.admits(of),
            Self::Not(it) => !it.admits(of),
            Self::Number(field, relation, wanted) => {
                let number = of.number(*field).and_then(FieldValue::as_f64);
                number.is_some_and(|it| relation.holds(it, *wanted))
            }
            Self::Same(field, wanted) => of.text(*field).is_some_and(|it| it == *wanted),
            Self::Like(field, pattern) => of.text(*field).is_some_and(|it| pattern.matches(&it)),
            Self::Named(pattern) => pattern.matches(&of.name()),
        }
    }

    /// The fields that must have been read.
    pub fn fields(&self) -> Vec<ProcessField> {
        match self {
            Self::Named(_) => vec![ProcessField::Comm, ProcessField::Cmdline],
            Self::And(a, b) | Self::Or(a, b) => [a.fields(), b.fields()].concat(),
            Self::Not(it) => it.fields(),
            _ => self.compared_fields(),
        }
    }

    /// The fields that it compares; a name that is searched is none.
    pub fn compared_fields(&self) -> Vec<ProcessField> {
        match self {
            Self::And(a, b) | Self::Or(a, b) => [a.compared_fields(), b.compared_fields()].concat(),
            Self::Not(it) => it.compared_fields(),
            Self::Number(field, ..) | Self::Same(field, _) | Self::Like(field, _) => vec![*field],
            Self::Named(_) => Vec::new(),
        }
    }
}

impl Relation {
    fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Less => a < b,
            Self::AtMost => a <= b,
            Self::More => a > b,
            Self::AtLeast => a >= b,
        }
    }
}

impl Pattern {
    fn new(text: &str) -> Self {
        Self(format!("*{}*", text.to_lowercase()))
    }

    fn matches(&self, text: &str) -> bool {
        matches_pattern(self.0.as_bytes(), text.to_lowercase().as_bytes())
    }
}
