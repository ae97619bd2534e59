//! `monitor services`: the manual of what can be asked for, out of the rows themselves.
//!
//! In: nothing but the list. Out: prototypes as the specification writes them, the manual, and
//! examples, each of which is run as a test; docs/SERVICES.md is what `--format markdown` prints.

mod brought;
mod json;
mod markdown;

use super::exit::{Exit, Failure};
use super::output;
use super::words::Services;
use monitor_model::name;
use monitor_omis::kind::listed;
use monitor_services::{Class, GROUPS, Row, registry};
use std::fmt::Write;

/// Columns of a line.
const WIDTH: usize = 78;

/// Prints it.
pub fn services(words: &Services) -> Result<Exit, Failure> {
    let wanted = match &words.name {
        Some(name) => vec![found(name)?],
        None => registry::all().collect(),
    };
    let text = match words.format.as_str() {
        "json" => json::print(&wanted),
        "markdown" => markdown::print(&wanted),
        _ if words.name.is_some() => page(wanted[0]),
        _ => overview(&brought::brought(words.daemon.socket.as_deref())),
    };
    output::print(text.as_bytes())
}

fn found(written: &str) -> Result<&'static Row, Failure> {
    let row = registry::all().find(|row| row.names().any(|name| name == written));
    row.ok_or_else(|| {
        let names = registry::all().map(|row| row.name);
        let hint = name::hint("service", names, written);
        Failure::usage(format!("unknown service {written:?}{hint}"))
    })
}

/// Every service in a line, by object.
fn overview(brought: &[[String; 3]]) -> String {
    let mut out = String::new();
    for (group, lists) in GROUPS {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{group}");
        for row in lists.iter().flat_map(|rows| *rows) {
            let _ = writeln!(out, "  {}", prototype(row));
        }
        out.push('\n');
    }
    out.push_str(&brought::overview(brought));
    out.push_str("monitor services NAME tells more of one.\n");
    out
}

/// What a service takes, as the specification writes it.
fn prototype(row: &Row) -> String {
    let sign = if row.class() == Class::Event { ":" } else { "" };
    format!("{}({}){sign}", row.name, listed(row.takes))
}

fn page(row: &Row) -> String {
    let mut out = format!("{}\n\n", prototype(row));
    for line in wrapped(row.help) {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "\n  class  {}; as an action {}", row.class().name(), row.level.name());
    let gives = match row.class() {
        Class::Event => "tells",
        Class::Manipulation | Class::Synchronous => "gives",
    };
    for (place, it) in (1..).zip(row.gives) {
        let _ = writeln!(out, "  {gives}  {place}: {} {}", it.kind, it.name);
    }
    for flag in row.flags {
        let _ = writeln!(out, "  flags  {}: {} {}, {}", flag.bit, flag.kind, flag.name, flag.help);
    }
    for example in row.examples {
        out.push('\n');
        for line in example.lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// A paragraph in lines of a terminal.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is always one");
        if !last.is_empty() && last.len() + 1 + word.len() > WIDTH {
            lines.push(word.to_owned());
            continue;
        }
        if !last.is_empty() {
            last.push(' ');
        }
        last.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_tells_what_a_service_takes_gives_and_does() {
        let page = page(found("process_terminated").unwrap());
        assert!(page.starts_with("process_terminated(process* tid_list):\n"), "{page}");
        assert!(page.contains("\n  tells  2: integer code\n"), "{page}");
        assert!(page.contains("\n  > 10 [0] process_terminated([7]): "), "{page}");
        assert!(page.lines().filter(|it| !it.contains("[0]")).all(|it| it.len() <= 80), "{page}");
    }

    #[test]
    fn a_wrong_name_is_told_with_the_nearest() {
        let told = found("proces_info").unwrap_err().message;
        assert_eq!(told, r#"unknown service "proces_info"; did you mean "process_info"?"#);
    }
}
