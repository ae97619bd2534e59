//! The files `mon/desc`, `mon/pull` and `mon/push`: which numbers a sample of the node has, and the
//! sample.
//!
//! In: the field list, and a sample as a client of the socket gets it. Out: one list on one line.
//! Names and units are those of FIELDS.md; a number that was not read is absent.

use super::counter_fields::{COUNTER_FIELDS, COUNTERS};
use super::sample_filter::{CategoryFields, Condition, HeldRow, SampleFilter};
use super::sexpr::{put_pair, put_word};
use monitor_model::field::{Category, CpuField, DiskField, Field, NetField, NodeField, Role};
use monitor_ninep::{Errno, FileError};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The categories of a sample: their name, the key of `node_stats` with their rows, and the field
/// that names a row.
const CATEGORIES: [(&str, &str, &str); 4] = [
    ("cpu", "cpus", "cpu"),
    ("disk", "disks", "device"),
    ("net", "nets", "interface"),
    (COUNTERS, COUNTERS, "cpu"),
];

/// The categories of a reading of the node, with their fields.
pub const FIELDS: [CategoryFields; 4] = [
    ("node", NodeField::FIELDS),
    ("cpu", CpuField::FIELDS),
    ("disk", DiskField::FIELDS),
    ("net", NetField::FIELDS),
];

/// A category of samples of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampleCategory(u8);

impl SampleCategory {
    /// All of them: those of [`FIELDS`] in their order, and counters.
    pub const ALL: [Self; FIELDS.len() + 1] = [Self(0), Self(1), Self(2), Self(3), Self::COUNTERS];
    /// Counters of processors, which no reading of the node has.
    pub const COUNTERS: Self = Self(4);

    /// Its number, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.fields()[0].0
    }

    /// Its name and its fields.
    pub fn fields(self) -> &'static [CategoryFields] {
        const ALL: &[CategoryFields] = &FIELDS;
        if self == Self::COUNTERS {
            return COUNTER_FIELDS;
        }
        &ALL[self.index()..=self.index()]
    }
}

/// The call `monitor` whose answer is the sample.
pub fn request() -> Value {
    json!({"part": "node"})
}

/// The description of categories: a list for each, with a list for each number: name, what it does
/// over time, unit.
pub fn description(of: &[CategoryFields]) -> String {
    let mut out = "(desc".to_owned();
    for (name, fields) in of {
        let _ = write!(out, " (cat {name}");
        fields.iter().for_each(|field| put_variable(&mut out, field));
        out.push(')');
    }
    out.push_str(")\n");
    out
}

/// Appends the description of a field; a rate is none, as it needs two samples.
pub fn put_variable(out: &mut String, field: &Field) {
    let role = match field.role {
        Role::Label => "label",
        Role::Gauge => "gauge",
        Role::Counter => "counter",
        Role::RateOf(_) => return,
    };
    let _ = write!(out, " (var {} {role} ", field.name);
    put_word(out, field.unit.name());
    out.push(')');
}

/// The parts of a sample.
///
/// # Errors
///
/// When it is none.
pub fn parsed<'s, S: Deserialize<'s>>(sample: &'s str) -> Result<S, FileError> {
    serde_json::from_str(sample)
        .map_err(|why| FileError::new(Errno::Io, format!("the sample cannot be parsed: {why}")))
}

/// The message of a refused reading.
pub fn refusal(error: &str) -> String {
    let error: serde_json::Value = serde_json::from_str(error).unwrap_or_default();
    error["message"].as_str().unwrap_or("the reading was refused").to_owned()
}

/// The text of a sample, which is the one of this number; `None` if it does not pass the filter.
///
/// # Errors
///
/// When it is none.
pub fn text(sample: &str, number: u32, filter: &SampleFilter) -> Result<Option<String>, FileError> {
    let sample: Map<String, Value> = parsed(sample)?;
    let node = sample.get("node_stats").and_then(Value::as_object);
    if !filter.passes(|category| rows_of(node, category)) {
        return Ok(None);
    }
    let mut out = "(sample ".to_owned();
    put_pair(&mut out, "node", sample.get("node").and_then(Value::as_str).unwrap_or_default());
    let _ = write!(out, " (time {})", sample.get("time_unix_ns").unwrap_or(&Value::Null));
    let _ = write!(out, " (seq {number})");
    if let Some(node) = node {
        if filter.wants("node") {
            out.push_str(" (node");
            put_numbers(&mut out, node);
            out.push(')');
        }
        let is_there = |key: &str| key != COUNTERS || node.contains_key(key);
        let wanted = |it: &(&str, &str, &str)| filter.wants(it.0) && is_there(it.1);
        for (name, key, label) in CATEGORIES.into_iter().filter(wanted) {
            let rows = node.get(key).and_then(Value::as_array);
            put_rows(&mut out, name, (rows.map_or(&[][..], Vec::as_slice), label));
        }
    }
    out.push_str(")\n");
    Ok(Some(out))
}

/// For each condition the first row of a sample for which it holds.
///
/// # Errors
///
/// When it is no sample.
pub fn holding(sample: &str, conditions: &[Condition]) -> Result<Vec<Option<HeldRow>>, FileError> {
    let sample: Map<String, Value> = parsed(sample)?;
    let node = sample.get("node_stats").and_then(Value::as_object);
    let held = conditions.iter().map(|condition| {
        let label = CATEGORIES.iter().find(|it| it.0 == condition.category).map(|it| it.2);
        HeldRow::find(condition, rows_of(node, &condition.category), label)
    });
    Ok(held.collect())
}

/// The rows of a category: the node itself is one.
fn rows_of<'s>(
    node: Option<&'s Map<String, Value>>,
    category: &str,
) -> impl Iterator<Item = &'s Map<String, Value>> + use<'s> {
    let key = CATEGORIES.iter().find(|it| it.0 == category).map(|it| it.1);
    let rows = key.and_then(|key| node?.get(key)?.as_array());
    let itself = node.filter(|_| category == "node");
    itself.into_iter().chain(rows.into_iter().flatten().filter_map(Value::as_object))
}

/// Appends the rows of a category, each with its name first.
pub fn put_rows(out: &mut String, name: &str, (rows, label): (&[Value], &str)) {
    let _ = write!(out, " ({name}");
    for row in rows.iter().filter_map(Value::as_object) {
        out.push_str(" (");
        put_value(out, row.get(label).unwrap_or(&Value::Null));
        let others = row.iter().filter(|it| it.0 != label);
        put_numbers(out, &others.map(|(name, value)| (name.clone(), value.clone())).collect());
        out.push(')');
    }
    out.push(')');
}

/// Appends the numbers and texts of an object.
fn put_numbers(out: &mut String, from: &Map<String, Value>) {
    for (name, value) in from.iter().filter(|it| !it.1.is_array() && !it.1.is_object()) {
        let _ = write!(out, " ({name} ");
        put_value(out, value);
        out.push(')');
    }
}

/// Appends a number or a text.
pub fn put_value(out: &mut String, value: &Value) {
    match value {
        Value::String(text) => put_word(out, text),
        Value::Null => put_word(out, ""),
        other => put_word(out, &other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_the_categories_of_a_sample() {
        let text = description(&FIELDS);
        assert!(text.starts_with("(desc (cat node (var uptime_ns gauge ns) "), "{text}");
        for (name, _) in FIELDS {
            assert!(text.contains(&format!(" (cat {name} (var ")), "{text}");
        }
        assert_eq!(text.matches('(').count(), text.matches(')').count());
        assert!(text.ends_with("))\n") && text.lines().count() == 1);
    }

    #[test]
    fn a_sample_is_one_list() {
        let sample = r#"{"node":"x 1","time_unix_ns":5,"node_stats":{"uptime_ns":7,"load1":0.5,
            "cpus":[{"cpu":0,"busy_ns":3}],"disks":[{"device":"sda","reads":2}],"nets":[]}}"#;
        let text = |filter: &str| {
            let filter =
                SampleFilter::default().with(filter.as_bytes(), &FIELDS).expect("a filter");
            text(sample, 4, &filter).expect("a sample").unwrap_or_default()
        };
        assert_eq!(
            text("(filter)"),
            "(sample (node 'x 1') (time 5) (seq 4) (node (load1 0.5) (uptime_ns 7)) \
             (cpu (0 (busy_ns 3))) (disk (sda (reads 2))) (net))\n"
        );
        assert_eq!(
            text("(filter (cat disk net) (> node.load1 0.4) (< cpu.busy_ns 4))"),
            "(sample (node 'x 1') (time 5) (seq 4) (disk (sda (reads 2))) (net))\n"
        );
        assert_eq!(text("(filter (> node.load1 0.5))"), "");
    }
}
