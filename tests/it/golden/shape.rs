//! The shape of JSON: one line for each path, with the types of its values.
//!
//! In: values. Out: text, sorted by path. All elements of a list have one path; `?` marks a key
//! that only some objects of a path have.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Keys whose values are frozen too.
const SHOWN: [&str; 9] =
    ["code", "ended", "event", "kind", "method", "outcome", "protocol", "status", "state"];

/// The paths of some values.
#[derive(Default)]
pub struct Shape {
    paths: BTreeMap<String, Values>,
}

#[derive(Default)]
struct Values {
    types: BTreeSet<String>,
    seen: usize,
    objects: usize,
}

impl Shape {
    /// The shape of one value.
    pub fn from_value(value: &Value) -> Self {
        let mut it = Self::default();
        it.add(value);
        it
    }

    /// The shape of lines of JSON.
    #[track_caller]
    pub fn of_lines(lines: &str) -> Self {
        let mut it = Self::default();
        for line in lines.lines().filter(|line| !line.is_empty()) {
            it.add(&serde_json::from_str(line).expect(line));
        }
        it
    }

    /// Adds another value.
    pub fn add(&mut self, value: &Value) {
        self.walk("", "", value);
    }

    fn walk(&mut self, path: &str, key: &str, value: &Value) {
        let values = self.paths.entry(path.to_owned()).or_default();
        values.seen += 1;
        let _new = values.types.insert(type_of(key, value));
        match value {
            Value::Object(members) => {
                values.objects += 1;
                for (key, member) in members {
                    let dot = if path.is_empty() { "" } else { "." };
                    self.walk(&format!("{path}{dot}{key}"), key, member);
                }
            }
            Value::Array(elements) => {
                elements.iter().for_each(|it| self.walk(&format!("{path}[]"), "", it));
            }
            _ => {}
        }
    }

    /// One line for each path. Keys below the paths in `open` are data and left out.
    pub fn text(&self, open: &[&str]) -> String {
        let data = |path: &str| {
            open.iter().any(|it| path.strip_prefix(it).is_some_and(|rest| rest.starts_with('.')))
        };
        let lines = self.paths.iter().filter(|(path, _)| !data(path)).map(|(path, values)| {
            let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
            let is_member = !path.is_empty() && !path.ends_with("[]");
            let objects = self.paths.get(parent).map_or(0, |it| it.objects);
            let optional = if is_member && values.seen < objects { " ?" } else { "" };
            let types: Vec<_> = values.types.iter().map(String::as_str).collect();
            let name = if path.is_empty() { "." } else { path };
            format!("{name}  {}{optional}\n", types.join(" or "))
        });
        lines.collect()
    }
}

fn type_of(key: &str, value: &Value) -> String {
    match value {
        _ if SHOWN.contains(&key) && !value.is_object() && !value.is_array() => value.to_string(),
        Value::Null => "null".into(),
        Value::Bool(_) => "flag".into(),
        Value::Number(it) if it.is_f64() => "decimal".into(),
        Value::Number(_) => "integer".into(),
        Value::String(_) => "text".into(),
        Value::Array(_) => "list".into(),
        Value::Object(_) => "object".into(),
    }
}

#[test]
fn paths_have_types_and_optional_keys_are_marked() {
    let shape = Shape::of_lines("{\"a\":[{\"b\":1},{\"b\":1.5,\"c\":{\"d\":true}}],\"code\":-3}");
    let want = "\
        .  object\n\
        a  list\n\
        a[]  object\n\
        a[].b  decimal or integer\n\
        a[].c  object ?\n\
        a[].c.d  flag\n\
        code  -3\n";
    assert_eq!(shape.text(&[]), want);
    assert!(!shape.text(&["a[].c"]).contains("c.d"));
}
