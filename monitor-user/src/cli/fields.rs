//! `monitor fields`: what there is to ask for, from the field lists themselves.

use super::args::Fields;
use super::exit::{Exit, Failure};
use super::output;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_model::field::{
    BlockField, Category, CpuField, DiskField, Field, GroupField, NetField, NodeField,
    ProcessField, Role,
};
use monitor_model::name;
use serde::Serialize;
use std::fmt::Write;

/// The categories: what they are of, and their fields.
const CATEGORIES: [(&str, &[Field]); 7] = [
    ("process", ProcessField::FIELDS),
    ("group", GroupField::FIELDS),
    ("process on a disk", BlockField::FIELDS),
    ("node", NodeField::FIELDS),
    ("cpu", CpuField::FIELDS),
    ("disk", DiskField::FIELDS),
    ("net", NetField::FIELDS),
];

/// A category, and those of its fields that are listed.
type Listed = (&'static str, Vec<&'static Field>);

/// Lists every field, or one: in each category that has it.
pub fn fields(words: &Fields) -> Result<Exit, Failure> {
    let listed = listed(words.name.as_deref())?;
    let text = match words.format.as_str() {
        "json" => json(&listed)?,
        "markdown" => markdown(&listed),
        _ => table(&listed),
    };
    output::print(text.as_bytes())
}

fn listed(name: Option<&str>) -> Result<Vec<Listed>, Failure> {
    let all = CATEGORIES.iter().flat_map(|(_, fields)| fields.iter().map(|field| field.name));
    if let Some(name) = name {
        let _ = name::position("field", all, name).map_err(Failure::usage)?;
    }
    let asked = |field: &&Field| name.is_none_or(|name| name == field.name);
    let of = |&(category, fields): &(&'static str, &'static [Field])| {
        (category, fields.iter().filter(asked).collect())
    };
    Ok(CATEGORIES.iter().map(of).filter(|(_, fields): &Listed| !fields.is_empty()).collect())
}

/// A field as JSON tells it.
#[derive(Serialize)]
struct Entry {
    category: &'static str,
    name: &'static str,
    title: &'static str,
    unit: Option<&'static str>,
    kind: &'static str,
    help: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    ebpf: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    procfs: &'static str,
}

fn json(listed: &[Listed]) -> Result<String, Failure> {
    let entries = listed.iter().flat_map(|&(category, ref fields)| {
        fields.iter().map(move |field| Entry {
            category,
            name: field.name,
            title: field.title,
            unit: Some(field.unit.name()).filter(|unit| !unit.is_empty()),
            kind: kind(field.role),
            help: field.help,
            ebpf: field.ebpf,
            procfs: field.procfs,
        })
    });
    output::json(&entries.collect::<Vec<_>>())
}

/// Name, unit and meaning on a line; the sources below. Writing to a `String` cannot fail.
fn table(listed: &[Listed]) -> String {
    let mut out = String::new();
    for (category, fields) in listed {
        let _ = writeln!(out, "{}", category.to_uppercase());
        for field in fields {
            let _ = write!(out, "  {:<27} {:<7} ", field.name, field.unit.name());
            wrap(field.help, INDENT, COLUMNS, &mut out);
            wrap_source("ebpf", field.ebpf, &mut out);
            wrap_source("proc", field.procfs, &mut out);
        }
        out.push('\n');
    }
    out
}

/// The page `docs/FIELDS.md`. Writing to a `String` cannot fail.
fn markdown(listed: &[Listed]) -> String {
    let mut out = String::from(PREFACE);
    for (category, fields) in listed {
        let title = category[..1].to_uppercase() + &category[1..];
        let _ = writeln!(out, "\n## {title}\n\n| field | unit | kind | meaning | eBPF | /proc |");
        out.push_str("|---|---|---|---|---|---|\n");
        for field in fields {
            let cells = [
                format!("`{}`", field.name),
                field.unit.name().to_owned(),
                kind(field.role).to_owned(),
                cell(field.help),
                cell(field.ebpf),
                cell(field.procfs),
            ];
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
    out
}

const PREFACE: &str = "\
# Fields

Written by `monitor fields --format markdown`; `cargo xtask docs` renews it.

These are the names in JSON and CSV, and of `--fields` and `--sort`.
A field that has no source in a backend, or whose kernel, privilege or switch is missing, \
is absent; the notes of the sample say why.
";

/// A text that stands in a table as it is written.
fn cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '|' | '<' | '>' | '*' | '_' | '`' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

const INDENT: usize = 38;

fn wrap_source(who: &str, source: &str, out: &mut String) {
    let source = if source.is_empty() { "-" } else { source };
    let _ = write!(out, "{:INDENT$}", "");
    wrap(&format!("{who}: {source}"), INDENT, COLUMNS, out);
}

const fn kind(role: Role) -> &'static str {
    match role {
        Role::Label => "label",
        Role::Gauge => "gauge",
        Role::Counter => "counter",
        Role::RateOf(_) => "rate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_stands_in_every_form() {
        let all = listed(None).expect("all");
        let (table, json) = (table(&all), json(&all).expect("strings fit"));
        let markdown = markdown(&all);
        for field in CATEGORIES.iter().flat_map(|(_, fields)| fields.iter()) {
            assert!(table.contains(&format!("  {} ", field.name)), "{}", field.name);
            assert!(json.contains(&format!("\"name\":\"{}\"", field.name)), "{}", field.name);
            assert!(markdown.contains(&format!("\n| `{}` |", field.name)), "{}", field.name);
        }
    }

    #[test]
    fn one_field_is_listed_in_every_category_that_has_it() {
        let one = listed(Some("read_bytes")).expect("there is one");
        let of: Vec<_> = one.iter().map(|(category, _)| *category).collect();
        assert_eq!(of, ["process", "process on a disk", "disk"]);
        let told = listed(Some("rss")).expect_err("there is none").message;
        assert_eq!(told, r#"unknown field "rss"; did you mean "rss_bytes"?"#);
    }

    #[test]
    fn a_source_with_a_bar_stays_in_its_cell() {
        assert_eq!(cell("a|b of <pid>"), r"a\|b of \<pid\>");
    }

    #[test]
    fn the_table_has_eighty_columns() {
        let table = table(&listed(None).expect("all"));
        let long = table.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None);
    }
}
