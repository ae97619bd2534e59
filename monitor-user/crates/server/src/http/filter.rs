//! The filter of the page: conditions on the columns of its table.
//!
//! In: the query of a URL, rows of the shared table. Out: a condition, or where its text is wrong;
//! the values of a row. Reads no further fields: a field that is not a column of the page is an
//! error.

use super::message::{frame, value};
use super::table::{COLUMNS, Row};
use bytes::Bytes;
use monitor_model::{Category, FieldValue, ProcessField};
use monitor_sampling::expression::{self, Expression, ParseError, SHORT, Subject};
use percent_encoding::percent_decode_str;
use serde_json::json;
use std::borrow::Cow;
use tokio::sync::mpsc::{Receiver, channel};

/// The condition of a query; or the error as JSON: a position in the text, and a line of text.
pub fn condition(query: &str) -> Result<Expression, String> {
    let text = percent_decode_str(value(query, "filter").unwrap_or_default());
    let text = text.decode_utf8().map_err(|_| error_json("", (0, "this is not UTF-8")))?;
    let found = expression::parse(&text).and_then(|it| check_columns(&text, it));
    found.map_err(|ParseError { at, message }| error_json(&text, (at, &message)))
}

/// A stream with one event, which reports an error in the text.
pub fn error_event(why: &str) -> Receiver<Bytes> {
    let (sender, receiver) = channel(1);
    // The new channel has room.
    let _ = sender.try_send(frame("wrong", why));
    receiver
}

/// An error as JSON. Positions in JavaScript are UTF-16 code units.
fn error_json(text: &str, (at, message): (usize, &str)) -> String {
    let at = text[..text.floor_char_boundary(at)].encode_utf16().count();
    json!({"at": at, "message": message}).to_string()
}

fn check_columns(text: &str, it: Expression) -> Result<Expression, ParseError> {
    let fields = it.fields();
    let Some(field) = fields.into_iter().find(|it| column(*it).is_none()) else { return Ok(it) };
    let short = SHORT.iter().filter(|it| it.1 == field).map(|it| it.0);
    let at = short.chain([field.field().name]).find_map(|name| text.find(name)).unwrap_or(0);
    let all = COLUMNS.join(", ");
    Err(ParseError {
        at,
        message: format!("the page has no column {}: it has {all}", field.field().name),
    })
}

fn column(field: ProcessField) -> Option<usize> {
    COLUMNS.iter().position(|it| *it == field.field().name)
}

/// A row of the table, as a subject of conditions.
pub struct FilterRow<'r>(pub &'r Row);

impl FilterRow<'_> {
    fn value_text(&self, field: ProcessField) -> Option<&str> {
        self.0[column(field)?].as_deref()
    }
}

impl Subject for FilterRow<'_> {
    fn number(&self, field: ProcessField) -> Option<FieldValue<'static>> {
        let number = match self.value_text(field)? {
            "true" => 1.0,
            "false" => 0.0,
            text => text.parse().ok()?,
        };
        Some(FieldValue::Float(number))
    }

    fn text(&self, field: ProcessField) -> Option<Cow<'_, str>> {
        let text: String = serde_json::from_str(self.value_text(field)?).ok()?;
        Some(Cow::Owned(text))
    }

    fn name(&self) -> Cow<'_, str> {
        let text = self.text(ProcessField::Cmdline).or_else(|| self.text(ProcessField::Comm));
        text.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[(&str, &str)]) -> Row {
        let written = |name: &&str| {
            let value = values.iter().find(|it| it.0 == *name);
            value.map(|it| Box::from(it.1))
        };
        std::array::from_fn(|at| written(&COLUMNS[at]))
    }

    #[track_caller]
    fn check(filter: &str, fits: bool) {
        let row = row(&[
            ("comm", "\"mpi_solver\""),
            ("user", "\"alice\""),
            ("cpu_percent", "12.5"),
            ("ended", "true"),
            ("threads", "4"),
        ]);
        let it = condition(&format!("x=1&filter={filter}")).unwrap();
        assert_eq!(it.admits(&FilterRow(&row)), fits, "{filter}");
    }

    #[test]
    fn values_are_compared_as_in_other_conditions() {
        check("cpu%20%3E%2010%20and%20comm%20~%20mpi", true);
        check("cpu>20", false);
        check("user=alice", true);
        check("solver", true);
        check("rss>0", false);
        check("not%20thr%20=%204", false);
    }

    #[test]
    fn an_error_has_a_position() {
        let wrong = |filter: &str| condition(&format!("filter={filter}")).unwrap_err();
        assert!(wrong("cpu>x").contains("\"at\":4"), "{}", wrong("cpu>x"));
        assert!(wrong("%C3%A9%20and%20cpu>x").contains("\"at\":10"));
        let far = wrong("comm=x%20and%20pss_bytes>1");
        assert!(far.contains("\"at\":11") && far.contains("has no column pss_bytes"), "{far}");
        assert!(wrong("%FF").contains("UTF-8"));
    }
}
