//! `monitor services`: the manual of the services, generated from the service list.
//!
//! In: the service list. Out: prototypes as the specification writes them, the manual, and
//! examples, each of which is run as a test. `--format markdown` prints docs/SERVICES.md.

mod external;
mod json;
mod markdown;

use super::daemon_args::ServicesArgs;
use super::exit::{Exit, Failure};
use super::output;
use monitor_model::name;
use monitor_omis::param_type::listed;
use monitor_services::{Class, SERVICE_GROUPS, ServiceSpec, registry};
use std::fmt::Write;

/// Maximum columns of a line.
const WIDTH: usize = 78;

/// Prints the manual of one service or of all.
pub fn services(args: &ServicesArgs) -> Result<Exit, Failure> {
    let wanted = match &args.name {
        Some(name) => vec![find(name)?],
        None => registry::all().collect(),
    };
    let text = match args.format.as_str() {
        "json" => json::print(&wanted),
        "markdown" => markdown::print(&wanted),
        _ if args.name.is_some() => page(wanted[0]),
        _ => overview(&external::external_services(args.daemon.socket.as_deref())),
    };
    output::print(text.as_bytes())
}

fn find(written: &str) -> Result<&'static ServiceSpec, Failure> {
    let spec = registry::all().find(|spec| spec.names().any(|name| name == written));
    spec.ok_or_else(|| {
        let names = registry::all().map(|spec| spec.name);
        let hint = name::hint("service", names, written);
        Failure::usage(format!("unknown service {written:?}{hint}"))
    })
}

/// All services, one per line, grouped by object.
fn overview(external: &[[String; 3]]) -> String {
    let mut out = String::new();
    for (group, lists) in SERVICE_GROUPS {
        // Writing to a `String` cannot fail.
        let _ = writeln!(out, "{group}");
        for spec in lists.iter().flat_map(|specs| *specs) {
            let _ = writeln!(out, "  {}", prototype(spec));
        }
        out.push('\n');
    }
    out.push_str(&external::overview(external));
    out.push_str("monitor services NAME prints the manual of one.\n");
    out
}

/// The prototype of a service, as the specification writes it.
fn prototype(spec: &ServiceSpec) -> String {
    let sign = if spec.class() == Class::Event { ":" } else { "" };
    format!("{}({}){sign}", spec.name, listed(spec.params))
}

fn page(spec: &ServiceSpec) -> String {
    let mut out = format!("{}\n\n", prototype(spec));
    for line in wrapped(spec.help) {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "\n  class  {}; as an action {}", spec.class().name(), spec.level.name());
    let label = match spec.class() {
        Class::Event => "param",
        Class::Manipulation | Class::Synchronous => "result",
    };
    for (index, result) in (1..).zip(spec.results) {
        let _ = writeln!(out, "  {label:<6} {index}: {} {}", result.kind, result.name);
    }
    for flag in spec.flags {
        let _ = writeln!(out, "  flags  {}: {} {}, {}", flag.bit, flag.kind, flag.name, flag.help);
    }
    for example in spec.examples {
        out.push('\n');
        for line in example.lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// A paragraph wrapped to `WIDTH` columns.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("the list starts with one line");
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
    fn a_page_has_parameters_results_and_examples() {
        let page = page(find("process_terminated").unwrap());
        assert!(page.starts_with("process_terminated(process* tid_list):\n"), "{page}");
        assert!(page.contains("\n  param  2: integer code\n"), "{page}");
        assert!(page.contains("\n  > 10 [0] process_terminated([7]): "), "{page}");
        assert!(page.lines().filter(|it| !it.contains("[0]")).all(|it| it.len() <= 80), "{page}");
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest() {
        let message = find("proces_info").unwrap_err().message;
        assert_eq!(message, r#"unknown service "proces_info"; did you mean "process_info"?"#);
    }
}
