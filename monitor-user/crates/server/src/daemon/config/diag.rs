//! Thresholds of diagnostic events in the configuration: `[{ name = "srq", count = 10 }]`.
//!
//! In: values of the file. Out: thresholds that override those of the event; or what was expected.

use super::value;
use monitor_model::{Ns, name};
use monitor_services::diag::ThresholdOverride;
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

const KEYS: [&str; 3] = ["name", "count", "delay"];

/// Parses thresholds by event.
pub fn events(value: &DeValue<'_>) -> Result<BTreeMap<String, ThresholdOverride>, String> {
    const WANT: &str = "a list such as [{ name = \"srq\", count = 10, delay = \"5s\" }]";
    let list = value.as_array().ok_or_else(|| value::expected(WANT, value))?;
    let event = |it: &DeValue<'_>| match it.as_table() {
        Some(table) => event(table),
        None => Err(value::expected(WANT, it)),
    };
    list.iter().map(|it| event(it.get_ref())).collect()
}

fn event(table: &DeTable<'_>) -> Result<(String, ThresholdOverride), String> {
    let (mut event, mut threshold) = (None, ThresholdOverride::default());
    for (key, it) in table {
        let place = name::position("key", KEYS.into_iter(), key.get_ref());
        match place.map_err(|why| why.to_string())? {
            0 => event = Some(value::text(it.get_ref())?.to_owned()),
            1 => threshold.count = Some(value::count(it.get_ref())? as u64),
            _ => threshold.delay = Some(time(it.get_ref())?),
        }
    }
    event.map(|event| (event, threshold)).ok_or_else(|| "an event needs a name".to_owned())
}

/// Parses a time, which may be zero.
pub fn time(value: &DeValue<'_>) -> Result<Ns, String> {
    match value.as_str() {
        Some("0s") => Ok(Ns(0)),
        _ => value::duration(value).map(Ns),
    }
}

/// Writes a time as TOML.
pub fn time_to_toml(time: Ns) -> String {
    match time.0 {
        0 => "\"0s\"".to_owned(),
        ns => value::duration_to_toml(ns),
    }
}

/// Writes thresholds as a TOML list.
pub fn events_to_toml(events: &BTreeMap<String, ThresholdOverride>) -> String {
    let event = |(name, it): (&String, &ThresholdOverride)| {
        let name = toml::Value::String(name.clone());
        let count = it.count.map(|count| format!(", count = {count}")).unwrap_or_default();
        let delay = it.delay.map(|delay| format!(", delay = {}", time_to_toml(delay)));
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
        let got = events(value.get_ref()).map(|it| super::events_to_toml(&it));
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{written}");
    }

    #[test]
    fn an_event_needs_a_name_and_may_have_thresholds() {
        let both = r#"[{ name = "a", count = 3, delay = "1m" }, { name = "b", delay = "0s" }]"#;
        check(both, Ok(both));
        check(r#"[{ count = 3 }]"#, Err("an event needs a name"));
        let wrong = r#"unknown key "delai"; did you mean "delay"?"#;
        check(r#"[{ name = "a", delai = "1s" }]"#, Err(wrong));
    }
}
