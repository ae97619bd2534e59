//! `monitor services`: the manual of the services, generated from the service list.
//!
//! In: the service list, and the services that tools have registered at the daemon. Out: prototypes
//! as the specification writes them, the manual, and examples, each of which is run as a test.
//! `--format markdown` prints docs/SERVICES.md.

use super::args::daemon::ServicesArgs;
use super::exit::{Exit, Failure};
use super::output;
use monitor_client::tool::Tool;
use monitor_event::right::Right;
use monitor_format::human;
use monitor_format::wrap::{COLUMNS, wrap};
use monitor_model::name;
use monitor_omis::param_type::{Param, listed};
use monitor_omis::{Value, parse};
use monitor_services::spec::{FlagSpec, ResultSpec};
use monitor_services::{Class, ErrorSpec, SERVICE_GROUPS, ServiceSpec, registry};
use serde_json::Value as Json;
use std::fmt::Write;
use std::path::Path;

/// Prints the manual of one service or of all.
pub fn services(args: &ServicesArgs) -> Result<Exit, Failure> {
    let wanted = match &args.name {
        Some(name) => vec![find(name)?],
        None => registry::all().collect(),
    };
    let text = match args.format.as_str() {
        "json" => json(&wanted),
        "markdown" => markdown(&wanted),
        _ if args.name.is_some() => page(wanted[0]),
        // Users describe the services that their tools provide.
        _ => human::escaped_lines(&overview(&external_services(args.daemon.socket.as_deref()))),
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
    out.push_str(&external_overview(external));
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
    out.push_str("  ");
    wrap(spec.help, 2, COLUMNS, &mut out);
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
    for error in spec.all_errors() {
        let _ = write!(out, "  status {}: ", error.status.0);
        wrap(error.when, 14, COLUMNS, &mut out);
    }
    for example in spec.examples {
        out.push('\n');
        for line in example.lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// Requests name, parameters and help of each external service.
fn external_services(socket: Option<&Path>) -> Vec<[String; 3]> {
    let tool = socket.map_or_else(Tool::connect, Tool::connect_to);
    let reply = tool.ok().and_then(|it| it.request_block("1 [] extension_services()").ok());
    let reply = reply.and_then(|line| parse::reply(line.as_bytes()).ok());
    let answer = reply.and_then(|reply| reply.0.into_iter().next());
    let list = answer.and_then(|answer| answer.results.into_iter().next());
    let text = |value: &Value| value.text().map(|it| it.to_str_lossy().into_owned());
    let words: Vec<String> =
        list.iter().filter_map(Value::list).flatten().filter_map(text).collect();
    words.as_chunks::<3>().0.to_vec()
}

/// The services as text, one per line; empty if there are none.
fn external_overview(all: &[[String; 3]]) -> String {
    let line = |[name, takes, help]: &[String; 3]| format!("  {name}({takes})  {help}\n");
    let lines: String = all.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("External services\n{lines}\n") }
}

/// The services as JSON.
fn json(specs: &[&ServiceSpec]) -> String {
    let specs: Vec<Json> = specs.iter().map(|spec| json_service(spec)).collect();
    format!("{}\n", serde_json::json!({ "schema_version": 1, "services": specs }))
}

fn json_service(spec: &ServiceSpec) -> Json {
    let right = match spec.right {
        Right::Nothing => "nothing",
        Right::Observe => "observe",
        Right::ObserveInFull => "observe-in-full",
        Right::Control => "control",
    };
    let takes =
        |it: &Param| serde_json::json!({ "name": it.name, "kind": it.param_type.to_string() });
    let gives = |it: &ResultSpec| serde_json::json!({ "name": it.name, "kind": it.kind });
    let flags = |it: &FlagSpec| {
        let FlagSpec { bit, name, kind, help, .. } = it;
        serde_json::json!({ "bit": bit, "name": name, "kind": kind, "help": help })
    };
    let errors = |it: &ErrorSpec| {
        let (number, name) = (it.status.0, it.status.name());
        serde_json::json!({ "number": number, "name": name, "when": it.when })
    };
    serde_json::json!({
        "name": spec.name,
        "aliases": spec.aliases,
        "prefix": spec.prefix,
        "class": spec.class().name(),
        "takes": spec.params.iter().map(takes).collect::<Vec<_>>(),
        "gives": spec.results.iter().map(gives).collect::<Vec<_>>(),
        "flags": spec.flags.iter().map(flags).collect::<Vec<_>>(),
        "errors": spec.all_errors().map(errors).collect::<Vec<_>>(),
        "needs": right,
        "level": spec.level.name(),
        "help": spec.help,
        "examples": spec.examples,
    })
}

const HEAD: &str = "\
# Services

The services that requests can call; [REQUESTS.md](REQUESTS.md) documents the language.
`monitor services --format markdown` generates this page from the list that the program uses.
Every example is run as a test: `>` is a request, `<` a reply, other lines set up the world.
An event service is written before a `:`; its parameters are `$1`, `$2`, … in its actions.
Every service may fail as any request does, with `ARITY`, `TYPE`, `NO_SUCH_NODE` and others.
The table of a service has its own failures.
A test runs a case of each error, in both dialects.
";

/// The page.
fn markdown(specs: &[&ServiceSpec]) -> String {
    let mut out = HEAD.to_owned();
    for (group, lists) in SERVICE_GROUPS {
        let of_group = lists.iter().flat_map(|specs| *specs);
        let meant: Vec<&ServiceSpec> =
            of_group.filter(|spec| specs.iter().any(|it| it.name == spec.name)).collect();
        if !meant.is_empty() {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\n## {group}\n");
        }
        meant.into_iter().for_each(|spec| markdown_service(spec, &mut out));
    }
    // The file ends with one line break, which its writer adds.
    out.trim_end().to_owned() + "\n"
}

fn markdown_service(spec: &ServiceSpec, out: &mut String) {
    let _ = write!(out, "\n### `{}`\n\n`{}`\n\n", spec.name, prototype(spec));
    for sentence in spec.help.split_inclusive(". ") {
        let _ = writeln!(out, "{}", sentence.trim_end());
    }
    let needs = match spec.right {
        Right::Nothing => "needs no right",
        Right::Observe => "needs the right to observe the processes",
        Right::ObserveInFull => "needs the right to observe the processes in full",
        Right::Control => "needs the right to control the processes",
    };
    let class = spec.class().name();
    let _ = write!(out, "\nClass: {class}; {needs}; as an action {}.\n", spec.level.name());
    if !spec.aliases.is_empty() {
        let _ = writeln!(out, "Also spelled `{}`.", spec.aliases.join("`, `"));
    }
    markdown_results(spec, out);
    markdown_errors(spec, out);
    for example in spec.examples {
        let _ = write!(out, "\n```text\n{example}\n```\n");
    }
}

fn markdown_results(spec: &ServiceSpec, out: &mut String) {
    if !spec.results.is_empty() {
        let heading = if spec.class() == Class::Event { "parameter" } else { "result" };
        let _ = write!(out, "\n| {heading} | kind |\n|---|---|\n");
        for it in spec.results {
            let _ = writeln!(out, "| {} | {} |", it.name, it.kind);
        }
    }
    if !spec.flags.is_empty() {
        out.push_str("\n| bit | selects | kind | meaning |\n|---|---|---|---|\n");
        for it in spec.flags {
            let _ = writeln!(out, "| {} | {} | {} | {} |", it.bit, it.name, it.kind, it.help);
        }
    }
}

fn markdown_errors(spec: &ServiceSpec, out: &mut String) {
    for (index, error) in spec.all_errors().enumerate() {
        if index == 0 {
            out.push_str("\n| status | when |\n|---|---|\n");
        }
        let (number, name) = (error.status.0, error.status.name().unwrap_or_default());
        let _ = writeln!(out, "| {number} `{name}` | {} |", error.when);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_parameters_results_and_examples() {
        let page = page(find("process_terminated").unwrap());
        assert!(page.starts_with("process_terminated(process* tid_list):\n"), "{page}");
        assert!(page.contains("\n  param  2: integer code\n"), "{page}");
        assert!(page.contains("\n  status 301: a process that has ended\n"), "{page}");
        assert!(page.contains("\n  > 10 [0] process_terminated([7]): "), "{page}");
        assert!(page.lines().filter(|it| !it.contains("[0]")).all(|it| it.len() <= 80), "{page}");
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest() {
        let message = find("proces_info").unwrap_err().message;
        assert_eq!(message, r#"unknown service "proces_info"; did you mean "process_info"?"#);
    }

    #[test]
    fn without_external_services_nothing_is_printed() {
        assert_eq!(external_overview(&[]), "");
        let service = ["d_add", "integer a", "Adds."].map(str::to_owned);
        assert_eq!(
            external_overview(&[service]),
            "External services\n  d_add(integer a)  Adds.\n\n"
        );
    }
}
