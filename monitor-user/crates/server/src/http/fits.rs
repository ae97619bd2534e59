//! Which processes of the page fit a condition: decided here, as everywhere else, and told as
//! that changes.
//!
//! In: the query of an address, and the table that all viewers share. Out: a condition on its
//! columns, or where its text is wrong; the ids of those who fit. Reads nothing: a field that the
//! page does not have is a mistake.

use super::live::value;
use super::message::frame;
use super::table::{COLUMNS, Row};
use bytes::Bytes;
use monitor_model::field::{Category, ProcessField, Value};
use monitor_sampling::expression;
use monitor_sampling::expression::{Expression, Fault, SHORT, Subject};
use percent_encoding::percent_decode_str;
use serde_json::json;
use std::borrow::Cow;
use tokio::sync::mpsc::{Receiver, channel};

/// The condition of a query, or what is wrong with it, as the page shows it: a place in letters
/// and one line.
pub fn condition(query: &str) -> Result<Expression, String> {
    let text = percent_decode_str(value(query, "filter").unwrap_or_default());
    let text = text.decode_utf8().map_err(|_| placed("", (0, "this is not UTF-8")))?;
    let found = expression::parse(&text).and_then(|it| on_the_page(&text, it));
    found.map_err(|Fault { at, message }| placed(&text, (at, &message)))
}

/// The one event for a text that makes no sense.
pub fn wrong(why: &str) -> Receiver<Bytes> {
    let (sender, receiver) = channel(1);
    // There is room for it.
    let _ = sender.try_send(frame("wrong", why));
    receiver
}

/// Places of JavaScript are in units of UTF-16.
fn placed(text: &str, (at, message): (usize, &str)) -> String {
    let at = text[..text.floor_char_boundary(at)].encode_utf16().count();
    json!({"at": at, "message": message}).to_string()
}

fn on_the_page(text: &str, it: Expression) -> Result<Expression, Fault> {
    let fields = it.fields();
    let Some(field) = fields.into_iter().find(|it| column(*it).is_none()) else { return Ok(it) };
    let short = SHORT.iter().filter(|it| it.1 == field).map(|it| it.0);
    let at = short.chain([field.field().name]).find_map(|name| text.find(name)).unwrap_or(0);
    let all = COLUMNS.join(", ");
    Err(Fault { at, message: format!("the page does not have {}: {all}", field.field().name) })
}

fn column(field: ProcessField) -> Option<usize> {
    COLUMNS.iter().position(|it| *it == field.field().name)
}

/// A process of the table.
pub struct Shown<'r>(pub &'r Row);

impl Shown<'_> {
    fn written(&self, field: ProcessField) -> Option<&str> {
        self.0[column(field)?].as_deref()
    }
}

impl Subject for Shown<'_> {
    fn number(&self, field: ProcessField) -> Option<Value<'static>> {
        let number = match self.written(field)? {
            "true" => 1.0,
            "false" => 0.0,
            text => text.parse().ok()?,
        };
        Some(Value::Float(number))
    }

    fn text(&self, field: ProcessField) -> Option<Cow<'_, str>> {
        let text: String = serde_json::from_str(self.written(field)?).ok()?;
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
        assert_eq!(it.admits(&Shown(&row)), fits, "{filter}");
    }

    #[test]
    fn values_are_compared_as_they_are_written() {
        check("cpu%20%3E%2010%20and%20comm%20~%20mpi", true);
        check("cpu>20", false);
        check("user=alice", true);
        check("solver", true);
        check("rss>0", false);
        check("not%20thr%20=%204", false);
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let wrong = |filter: &str| condition(&format!("filter={filter}")).unwrap_err();
        assert!(wrong("cpu>x").contains("\"at\":4"), "{}", wrong("cpu>x"));
        assert!(wrong("%C3%A9%20and%20cpu>x").contains("\"at\":10"));
        let far = wrong("comm=x%20and%20pss_bytes>1");
        assert!(far.contains("\"at\":11") && far.contains("does not have pss_bytes"), "{far}");
        assert!(wrong("%FF").contains("UTF-8"));
    }
}
