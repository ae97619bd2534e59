//! Group rules of the metrics in the configuration: `[{ name = "mpi", comm = "^orted$" }]`.
//!
//! In: values of the file. Out: rules with valid patterns, capabilities that measure durations; or
//! what was expected.

use super::value::{expected, text};
use monitor_model::{Capability, Category, name};
use monitor_sampling::group::rule::{GroupRules, RULE_FIELDS, RuleSpec};
use toml::de::{DeTable, DeValue};

/// Capabilities that measure durations.
const TIMED: [Capability; 2] = [Capability::Block, Capability::RunQueue];

/// Parses rules.
pub fn rules(value: &DeValue<'_>) -> Result<Vec<RuleSpec>, String> {
    const WANT: &str = "a list such as [{ name = \"mpi\", comm = \"^orted$\" }]";
    let list = value.as_array().ok_or_else(|| expected(WANT, value))?;
    let table = |it: &DeValue<'_>| match it.as_table() {
        Some(table) => rule(table),
        None => Err(expected(WANT, it)),
    };
    let rules = list.iter().map(|it| table(it.get_ref())).collect::<Result<Vec<_>, _>>()?;
    GroupRules::from_specs(&rules)?;
    Ok(rules)
}

fn rule(table: &DeTable<'_>) -> Result<RuleSpec, String> {
    let mut rule = RuleSpec::default();
    for (key, value) in table {
        let said = text(value.get_ref())?.to_owned();
        if key.get_ref() == "name" {
            rule.name = said;
            continue;
        }
        let names = RULE_FIELDS.iter().map(|it| it.field().name);
        let place = name::position("key", names.chain(["name"]), key.get_ref());
        let field = RULE_FIELDS[place.map_err(|why| why.to_string())?];
        rule.patterns.push((field, said));
    }
    if rule.name.is_empty() || rule.patterns.is_empty() {
        return Err(
            "a rule needs a name and a pattern for comm, cmdline, cgroup, user or job".into()
        );
    }
    Ok(rule)
}

/// Writes rules as a TOML list.
pub fn rules_to_toml(rules: &[RuleSpec]) -> String {
    let rule = |it: &RuleSpec| {
        let patterns = it.patterns.iter().map(|(field, text)| (field.field().name, text));
        let pairs = [("name", &it.name)].into_iter().chain(patterns);
        let pairs: Vec<_> = pairs.map(|(key, text)| format!("{key} = {}", quoted(text))).collect();
        format!("{{ {} }}", pairs.join(", "))
    };
    let all: Vec<_> = rules.iter().map(rule).collect();
    format!("[{}]", all.join(", "))
}

/// Writes a text as TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Parses capabilities that measure durations.
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
    fn a_rule_needs_a_name_and_patterns() {
        check(r#"[{name="a",comm="x"},{name="b",cmdline="y",user="z"}]"#, Ok(2));
        let lacking = "a rule needs a name and a pattern for comm, cmdline, cgroup, user or job";
        check(r#"[{name="a"}]"#, Err(lacking));
        check(r#"[{comm="a"}]"#, Err(lacking));
        check(r#"[{name="a",com="x"}]"#, Err(r#"unknown key "com"; did you mean "comm"?"#));
    }

    #[test]
    fn what_is_written_can_be_read_again() {
        let text = r#"[{name="a\"b",cmdline='\d+ "x"'}]"#;
        let value = DeValue::parse(text).expect("a value");
        let first = rules(value.get_ref()).expect("rules");
        let again = rules_to_toml(&first);
        let value = DeValue::parse(&again).expect("a value");
        assert_eq!(rules(value.get_ref()), Ok(first));
    }
}
