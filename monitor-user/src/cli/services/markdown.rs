//! The services as a Markdown page: docs/SERVICES.md.

use super::prototype;
use monitor_event::right::Right;
use monitor_services::{Class, SERVICE_GROUPS, ServiceSpec};
use std::fmt::Write;

const HEAD: &str = "\
# Services

The services that requests can call; [REQUESTS.md](REQUESTS.md) documents the language.
`monitor services --format markdown` generates this page from the list that the program uses.
Every example is run as a test: `>` is a request, `<` a reply, other lines set up the world.
An event service is written before a `:`; its parameters are `$1`, `$2`, … in its actions.
";

/// The page.
pub fn print(specs: &[&ServiceSpec]) -> String {
    let mut out = HEAD.to_owned();
    for (group, lists) in SERVICE_GROUPS {
        let of_group = lists.iter().flat_map(|specs| *specs);
        let meant: Vec<&ServiceSpec> =
            of_group.filter(|spec| specs.iter().any(|it| it.name == spec.name)).collect();
        if !meant.is_empty() {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\n## {group}\n");
        }
        meant.into_iter().for_each(|spec| service(spec, &mut out));
    }
    // The file ends with one line break, which its writer adds.
    out.trim_end().to_owned() + "\n"
}

fn service(spec: &ServiceSpec, out: &mut String) {
    let _ = write!(out, "\n### `{}`\n\n`{}`\n\n", spec.name, prototype(spec));
    for sentence in spec.help.split_inclusive(". ") {
        let _ = writeln!(out, "{}", sentence.trim_end());
    }
    let needs = match spec.right {
        Right::Nothing => "needs no right",
        Right::Observe => "needs the right to observe the processes",
        Right::Control => "needs the right to control the processes",
    };
    let class = spec.class().name();
    let _ = write!(out, "\nClass: {class}; {needs}; as an action {}.\n", spec.level.name());
    if !spec.aliases.is_empty() {
        let _ = writeln!(out, "Also spelled `{}`.", spec.aliases.join("`, `"));
    }
    results(spec, out);
    for example in spec.examples {
        let _ = write!(out, "\n```text\n{example}\n```\n");
    }
}

fn results(spec: &ServiceSpec, out: &mut String) {
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
