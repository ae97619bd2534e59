//! The request language: every service with its prefix, class, parameters and results, and every
//! status with its number.

use super::{check, printed, repository};
use serde_json::Value;

/// Names and kinds of a list of parameters or results.
fn pairs(list: &Value) -> String {
    let pair = |it: &Value| {
        let text = |key: &str| it[key].as_str().unwrap().to_owned();
        format!("{} {}", text("kind"), text("name"))
    };
    list.as_array().unwrap().iter().map(pair).collect::<Vec<_>>().join(", ")
}

fn service(it: &Value) -> String {
    let text = |key: &str| it[key].as_str().unwrap();
    let flags = it["flags"].as_array().unwrap().iter();
    let flags: String = flags
        .map(|flag| {
            let (bit, kind) = (&flag["bit"], flag["kind"].as_str().unwrap());
            format!("  bit {bit}: {kind} {}\n", flag["name"].as_str().unwrap())
        })
        .collect();
    let names = it["aliases"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let names: String = names.map(|it| format!("  also {it}\n")).collect();
    format!(
        "{}({})\n  gives ({})\n  prefix {:?}, class {}, needs {}, level {}\n{names}{flags}",
        text("name"),
        pairs(&it["takes"]),
        pairs(&it["gives"]),
        text("prefix"),
        text("class"),
        text("needs"),
        text("level"),
    )
}

#[test]
fn every_service_keeps_its_name_parameters_and_results() {
    let all: Value = serde_json::from_str(&printed(&["services", "--format", "json"])).unwrap();
    let mut services: Vec<_> = all["services"].as_array().unwrap().iter().map(service).collect();
    services.sort();
    let head = format!("schema_version {}\n", all["schema_version"]);
    check("language/services.txt", &(head + &services.concat()));
}

/// Rows `| number | `NAME` |` of the documentation; other tests compare them with the program.
fn rows(sign: fn(i64) -> bool) -> String {
    let folder = repository().join("docs");
    let pages = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let pages = pages.filter(|it| it.extension().is_some_and(|it| it == "md"));
    let mut found: Vec<(i64, String)> = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(page).unwrap();
        found.extend(text.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            let number = cells.next()?.parse().ok().filter(|it| sign(*it))?;
            let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
            let is_name = |it: char| it.is_ascii_uppercase() || it == '_';
            name.chars().all(is_name).then(|| (number, name.to_owned()))
        }));
    }
    found.sort();
    found.dedup();
    found.iter().map(|(number, name)| format!("{number} {name}\n")).collect()
}

#[test]
fn every_reply_status_keeps_its_number() {
    check("language/statuses.txt", &rows(|number| number >= 0));
}

#[test]
fn every_socket_status_keeps_its_number() {
    check("socket/statuses.txt", &rows(|number| number < 0));
}
