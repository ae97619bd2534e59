//! JSON as OMIS values, and options as JSON.
//!
//! An object becomes a list of names and values in its order, true and false become 1 and 0, null
//! an empty list. Absent members have no name in the list.

use monitor_event::Refusal;
use monitor_model::name;
use monitor_omis::{Status, Text, Value};
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json, json};
use std::fmt;

/// Names of options of `monitor` of docs/SOCKET.md.
pub const MONITOR: &[&str] = &[
    "targets",
    "disks",
    "nets",
    "comms",
    "uids",
    "cgroups",
    "filter",
    "group_by",
    "keep_ns",
    "sort",
    "top",
    "threads",
    "capabilities",
    "histograms",
    "pmix",
    "count",
    "follow",
    "replace",
];
/// Names of options of `heartbeat`.
pub const HEARTBEAT: &[&str] = &["pid", "drops", "repeat", "code", "range", "replace"];
/// Names of options of `file`.
pub const FILE: &[&str] = &["size", "access", "modify", "drops", "repeat", "code", "replace"];
/// Names of options of `register`.
pub const REGISTER: &[&str] = &["pid"];
/// Options that are true or false.
const FLAGS: [&str; 9] =
    ["threads", "histograms", "pmix", "follow", "replace", "repeat", "size", "access", "modify"];

/// JSON text as a value.
pub fn value(json: &str) -> serde_json::Result<Value> {
    serde_json::from_str(json).map(|JsonValue(value)| value)
}

/// A serializable object as a value.
pub fn from_serializable(it: &impl Serialize) -> serde_json::Result<Value> {
    value(&serde_json::to_string(it)?)
}

/// The value of a name in an object.
pub fn get(object: &Value, name: &str) -> Option<Value> {
    let (pairs, _) = object.list()?.as_chunks::<2>();
    let is = |key: &Value| key.text().is_some_and(|it| it.as_bytes() == name.as_bytes());
    pairs.iter().find(|[key, _]| is(key)).map(|[_, value]| value.clone())
}

/// Options, given as names and values, as a JSON object; only these names are allowed.
pub fn options(names: &[&str], all: &Value) -> Result<Map<String, Json>, Refusal> {
    let wrong = |text: String| Refusal::new(Status::RANGE, text);
    let (pairs, []) = all.list().unwrap_or_default().as_chunks::<2>() else {
        let text =
            format!("options: expected names and values; the names are {}", names.join(", "));
        return Err(wrong(text));
    };
    let mut out = Map::new();
    for [key, value] in pairs {
        let key = key.text().ok_or_else(|| wrong(format!("option {key}: expected a name")))?;
        let key = key.to_str_lossy();
        let place = name::position("option", names.iter().copied(), &key);
        let key = names[place.map_err(|unknown| wrong(unknown.to_string()))?];
        let json = option(key, value)
            .ok_or_else(|| wrong(format!("option {key}: {value} is not a valid value")))?;
        if out.insert(key.to_owned(), json).is_some() {
            return Err(wrong(format!("option {key} is given twice")));
        }
    }
    Ok(out)
}

/// The value of an option.
fn option(key: &str, value: &Value) -> Option<Json> {
    if FLAGS.contains(&key) {
        return match value.integer::<u8>()? {
            0 => Some(Json::Bool(false)),
            1 => Some(Json::Bool(true)),
            _ => None,
        };
    }
    match (key, value) {
        ("targets", Value::List(targets)) => targets.iter().map(target).collect(),
        _ => plain(value),
    }
}

/// A target: a process id, or an object such as `["namespace","job","rank",3]`.
fn target(value: &Value) -> Option<Json> {
    let Value::List(words) = value else {
        return Some(json!({ "pid": value.integer::<i64>()? }));
    };
    let (pairs, []) = words.as_chunks::<2>() else { return None };
    let pair =
        |[key, value]: &[Value; 2]| Some((key.text()?.to_str_lossy().into_owned(), plain(value)?));
    pairs.iter().map(pair).collect::<Option<Map<_, _>>>().map(Json::Object)
}

fn plain(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Integer(number) => match number.get::<i64>() {
            Some(number) => json!(number),
            None => json!(number.get::<u64>()?),
        },
        Value::Float(number) => json!(number.0),
        Value::Text(text) => json!(text.to_str_lossy()),
        Value::List(items) => items.iter().map(plain).collect::<Option<Vec<_>>>()?.into(),
        Value::Binary(_) | Value::Token(_) => return None,
    })
}

/// A value deserialized from JSON.
struct JsonValue(Value);

impl<'de> Deserialize<'de> for JsonValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(JsonVisitor).map(Self)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Value, E> {
        Ok(Value::from(u8::from(yes)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::from(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(Text::from(text)))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::List(Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(JsonValue(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some((JsonValue(key), JsonValue(value))) = pairs.next_entry()? {
            all.extend([key, value]);
        }
        Ok(Value::List(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_a_list_of_names_and_values_in_its_order() {
        let it = value(r#"{"z":[1,-2,2.5],"a":{"yes":true,"none":null},"s":"\u001b\""}"#).unwrap();
        let want = r#"["z",[1,-2,2.5],"a",["yes",1,"none",[]],"s","#;
        assert!(it.to_string().starts_with(want), "{it}");
        assert_eq!(get(&it, "z").unwrap().to_string(), "[1,-2,2.5]");
        assert_eq!(get(&it, "yes"), None);
    }

    #[track_caller]
    fn check(all: &[Value], want: Result<&str, &str>) {
        let all = Value::List(all.to_vec());
        let got = options(MONITOR, &all).map(|it| Json::Object(it).to_string());
        let got = got.map_err(|why| why.text);
        assert_eq!(got.as_deref().map_err(String::as_str), want);
    }

    #[test]
    fn options_are_names_and_values() {
        let rank: Vec<Value> = vec!["namespace".into(), "job".into(), "rank".into(), 3.into()];
        let targets = Value::List(vec![7.into(), Value::List(rank)]);
        let want = r#"{"targets":[{"pid":7},{"namespace":"job","rank":3}],"threads":true}"#;
        check(&["targets".into(), targets, "threads".into(), 1.into()], Ok(want));
        check(&["sort".into(), "-rss_bytes".into()], Ok(r#"{"sort":"-rss_bytes"}"#));
        check(&[], Ok("{}"));
    }

    #[test]
    fn an_invalid_option_is_refused() {
        let odd = options(REGISTER, &Value::List(vec!["pid".into()])).unwrap_err();
        assert_eq!(odd.text, "options: expected names and values; the names are pid");
        check(&["tops".into(), 1.into()], Err("unknown option \"tops\"; did you mean \"top\"?"));
        check(&[7.into(), 1.into()], Err("option 7: expected a name"));
        check(&["pmix".into(), 2.into()], Err("option pmix: 2 is not a valid value"));
        let twice = "option top is given twice";
        check(&["top".into(), 1.into(), "top".into(), 2.into()], Err(twice));
    }
}
