//! Thresholds of unusual events as they are written: `[{ name = "srq", count = 10 }]`.
//!
//! In: values of the file. Out: thresholds that come before those of the event; or what was wanted.

use super::value;
use monitor_model::id::Ns;
use monitor_model::name;
use monitor_services::diag::Override;
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

const KEYS: [&str; 3] = ["name", "count", "delay"];

/// Thresholds by event.
pub fn events(value: &DeValue<'_>) -> Result<BTreeMap<String, Override>, String> {
    const WANT: &str = "a list such as [{ name = \"srq\", count = 10, delay = \"5s\" }]";
    let list = value.as_array().ok_or_else(|| value::wanted(WANT, value))?;
    let event = |it: &DeValue<'_>| match it.as_table() {
        Some(table) => event(table),
        None => Err(value::wanted(WANT, it)),
    };
    list.iter().map(|it| event(it.get_ref())).collect()
}

fn event(table: &DeTable<'_>) -> Result<(String, Override), String> {
    let (mut event, mut said) = (None, Override::default());
    for (key, it) in table {
        let place = name::position("key", KEYS.into_iter(), key.get_ref());
        match place.map_err(|why| why.to_string())? {
            0 => event = Some(value::text(it.get_ref())?.to_owned()),
            1 => said.count = Some(value::count(it.get_ref())? as u64),
            _ => said.delay = Some(time(it.get_ref())?),
        }
    }
    event.map(|event| (event, said)).ok_or_else(|| "an event has a name".to_owned())
}

/// A time, which may be none at all.
pub fn time(value: &DeValue<'_>) -> Result<Ns, String> {
    match value.as_str() {
        Some("0s") => Ok(Ns(0)),
        _ => value::duration(value).map(Ns),
    }
}

/// As the file has a time.
pub fn written_time(time: Ns) -> String {
    match time.0 {
        0 => "\"0s\"".to_owned(),
        ns => value::written_duration(ns),
    }
}

/// As a list of the file.
pub fn written(events: &BTreeMap<String, Override>) -> String {
    let event = |(name, it): (&String, &Override)| {
        let name = toml::Value::String(name.clone());
        let count = it.count.map(|count| format!(", count = {count}")).unwrap_or_default();
        let delay = it.delay.map(|delay| format!(", delay = {}", written_time(delay)));
        format!("{{ name = {name}{count}{} }}", delay.unwrap_or_default())
    };
    let all: Vec<String> = events.iter().map(event).collect();
    format!("[{}]", all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, want: Result<&str, &str>) {
        let value = DeValue::parse(written).expect("a value");
        let got = events(value.get_ref()).map(|it| super::written(&it));
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{written}");
    }

    #[test]
    fn an_event_has_a_name_and_perhaps_thresholds() {
        let both = r#"[{ name = "a", count = 3, delay = "1m" }, { name = "b", delay = "0s" }]"#;
        check(both, Ok(both));
        check(r#"[{ count = 3 }]"#, Err("an event has a name"));
        let wrong = r#"unknown key "delai"; did you mean "delay"?"#;
        check(r#"[{ name = "a", delai = "1s" }]"#, Err(wrong));
    }
}
