//! Rules of the metrics as they are written: `[{ name = "mpi", comm = "^orted$" }]`.
//!
//! In: values of the file. Out: rules whose patterns are patterns, capabilities that have
//! durations; or what was wanted there.

use super::value::{text, wanted};
use monitor_model::field::Category;
use monitor_model::name;
use monitor_model::want::Capability;
use monitor_sampling::group::rule::{LOOKED_AT, Rules, Written};
use toml::de::{DeTable, DeValue};

/// Capabilities that count how long something takes.
const TIMED: [Capability; 2] = [Capability::Block, Capability::RunQueue];

/// Rules.
pub fn rules(value: &DeValue<'_>) -> Result<Vec<Written>, String> {
    const WANT: &str = "a list such as [{ name = \"mpi\", comm = \"^orted$\" }]";
    let list = value.as_array().ok_or_else(|| wanted(WANT, value))?;
    let table = |it: &DeValue<'_>| match it.as_table() {
        Some(table) => rule(table),
        None => Err(wanted(WANT, it)),
    };
    let rules = list.iter().map(|it| table(it.get_ref())).collect::<Result<Vec<_>, _>>()?;
    Rules::of(&rules)?;
    Ok(rules)
}

fn rule(table: &DeTable<'_>) -> Result<Written, String> {
    let mut rule = Written::default();
    for (key, value) in table {
        let said = text(value.get_ref())?.to_owned();
        if key.get_ref() == "name" {
            rule.name = said;
            continue;
        }
        let names = LOOKED_AT.iter().map(|it| it.field().name);
        let place = name::position("key", names.chain(["name"]), key.get_ref());
        let field = LOOKED_AT[place.map_err(|why| why.to_string())?];
        rule.patterns.push((field, said));
    }
    if rule.name.is_empty() || rule.patterns.is_empty() {
        return Err(
            "a rule has a name, and a pattern for comm, cmdline, cgroup, user or job".into()
        );
    }
    Ok(rule)
}

/// As a list of the file.
pub fn written(rules: &[Written]) -> String {
    let rule = |it: &Written| {
        let patterns = it.patterns.iter().map(|(field, text)| (field.field().name, text));
        let pairs = [("name", &it.name)].into_iter().chain(patterns);
        let pairs: Vec<_> = pairs.map(|(key, text)| format!("{key} = {}", quoted(text))).collect();
        format!("{{ {} }}", pairs.join(", "))
    };
    let all: Vec<_> = rules.iter().map(rule).collect();
    format!("[{}]", all.join(", "))
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Capabilities with durations.
pub fn histograms(value: &DeValue<'_>) -> Result<Vec<Capability>, String> {
    let names = super::value::texts(value)?;
    let timed = TIMED.iter().map(|it| it.name());
    let place = |it: &String| name::position("histogram", timed.clone(), it);
    let found = names.iter().map(|it| Ok(TIMED[place(it).map_err(|why| why.to_string())?]));
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, want: Result<usize, &str>) {
        let value = DeValue::parse(written).expect("a value");
        let got = rules(value.get_ref()).map(|it| it.len());
        assert_eq!(got, want.map_err(str::to_owned), "{written}");
    }

    #[test]
    fn a_rule_has_a_name_and_patterns() {
        check(r#"[{name="a",comm="x"},{name="b",cmdline="y",user="z"}]"#, Ok(2));
        let lacking = "a rule has a name, and a pattern for comm, cmdline, cgroup, user or job";
        check(r#"[{name="a"}]"#, Err(lacking));
        check(r#"[{comm="a"}]"#, Err(lacking));
        check(r#"[{name="a",com="x"}]"#, Err(r#"unknown key "com"; did you mean "comm"?"#));
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let text = r#"[{name="a\"b",cmdline='\d+ "x"'}]"#;
        let value = DeValue::parse(text).expect("a value");
        let first = rules(value.get_ref()).expect("rules");
        let again = written(&first);
        let value = DeValue::parse(&again).expect("a value");
        assert_eq!(rules(value.get_ref()), Ok(first));
    }
}
