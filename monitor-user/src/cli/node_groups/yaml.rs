//! Sources of groups in a file of YAML: names of sources, of their groups, and sets of nodes.
//!
//! In: the text of a file. Out: its sources, or what is wrong in it. A set is a text, or a list of
//! texts.

use super::source::{GroupSource, Origin, joined};
use std::collections::BTreeMap;
use yaml_rust2::{Yaml, YamlLoader};

/// The sources of a text, in its order.
///
/// # Errors
/// It is no YAML, or has something else than sources of groups; what.
pub fn sources(text: &str) -> Result<Vec<GroupSource>, String> {
    let documents = YamlLoader::load_from_str(text).map_err(|error| error.to_string())?;
    let [Yaml::Hash(sources)] = documents.as_slice() else {
        return Err("expected names of sources with their groups".to_owned());
    };
    let source = |(name, groups): (&Yaml, &Yaml)| {
        let name = name_of(name, "source")?;
        let Yaml::Hash(groups) = groups else {
            return Err(format!("source {name:?} has no names of groups with their nodes"));
        };
        let groups = groups.iter().map(|(group, nodes)| {
            let group = name_of(group, "group")?;
            let set = set_of(nodes).ok_or_else(|| {
                format!("group {group:?} of source {name:?} is neither a set nor a list of sets")
            })?;
            Ok((group, set))
        });
        let groups = groups.collect::<Result<BTreeMap<_, _>, String>>()?;
        Ok(GroupSource { name, origin: Origin::File(groups) })
    };
    sources.iter().map(source).collect()
}

fn name_of(name: &Yaml, what: &str) -> Result<String, String> {
    match name {
        Yaml::String(name) => Ok(name.clone()),
        other => {
            let written = scalar(other).unwrap_or_else(|| "of several values".to_owned());
            Err(format!("the name of a {what} is no text: {written} (add quotes)"))
        }
    }
}

/// The set of a value: a text, texts in a list, or nothing.
fn set_of(nodes: &Yaml) -> Option<String> {
    let text = match nodes {
        Yaml::Null => String::new(),
        Yaml::Array(parts) => {
            let parts: Option<Vec<String>> = parts.iter().map(scalar).collect();
            parts?.join(",")
        }
        other => scalar(other)?,
    };
    Some(joined(&text))
}

fn scalar(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(text) | Yaml::Real(text) => Some(text.clone()),
        Yaml::Integer(number) => Some(number.to_string()),
        Yaml::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_sources_with_groups() {
        let text =
            "racks:\n  r1: 'n[1-4]'\n  'r2': [n5, 'n[6-7]']\n  r3:\nother:\n  all: '@racks:*'";
        let sources = sources(text).unwrap();
        let names: Vec<&str> = sources.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["racks", "other"]);
        let Origin::File(groups) = &sources[0].origin else { panic!("{sources:?}") };
        let groups: Vec<(&str, &str)> =
            groups.iter().map(|(name, set)| (name.as_str(), set.as_str())).collect();
        assert_eq!(groups, [("r1", "n[1-4]"), ("r2", "n5,n[6-7]"), ("r3", "")]);
    }

    #[test]
    fn what_is_no_source_is_named() {
        let check = |text: &str, want: &str| {
            let why = sources(text).expect_err("no sources");
            assert!(why.starts_with(want), "{text}: {why}");
        };
        check("", "expected names of sources");
        check("- a", "expected names of sources");
        check("a: b", "source \"a\" has no names of groups");
        check("1: {a: b}", "the name of a source is no text: 1 (add quotes)");
        check("a: {2: b}", "the name of a group is no text: 2 (add quotes)");
        check("a: {b: {c: d}}", "group \"b\" of source \"a\" is neither");
        check("a: [", "while parsing");
    }
}
