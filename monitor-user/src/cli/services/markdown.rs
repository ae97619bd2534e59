//! Rows as a page: docs/SERVICES.md.

use super::prototype;
use monitor_event::right::Right;
use monitor_services::{Class, GROUPS, Row};
use std::fmt::Write;

const HEAD: &str = "\
# Services

What can be asked for in the language of [REQUESTS.md](REQUESTS.md).
`monitor services --format markdown` prints this page out of the list that the program uses.
Every example is run as a test: `>` is a request, `<` a reply, other lines say how the world is.
A service that is an event stands before a `:`; what it tells are `$1` and so on of its actions.
";

/// The page.
pub fn print(rows: &[&Row]) -> String {
    let mut out = HEAD.to_owned();
    for (group, lists) in GROUPS {
        let of_group = lists.iter().flat_map(|rows| *rows);
        let meant: Vec<&Row> =
            of_group.filter(|row| rows.iter().any(|it| it.name == row.name)).collect();
        if !meant.is_empty() {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\n## {group}\n");
        }
        meant.into_iter().for_each(|row| service(row, &mut out));
    }
    // The file ends with one line break, which its writer adds.
    out.trim_end().to_owned() + "\n"
}

fn service(row: &Row, out: &mut String) {
    let _ = write!(out, "\n### `{}`\n\n`{}`\n\n", row.name, prototype(row));
    for sentence in row.help.split_inclusive(". ") {
        let _ = writeln!(out, "{}", sentence.trim_end());
    }
    let needs = match row.right {
        Right::Nothing => "needs no right",
        Right::Observe => "needs to see the processes",
        Right::Control => "needs to act on the processes",
    };
    let class = row.class().name();
    let _ = write!(out, "\nClass: {class}; {needs}; as an action {}.\n", row.level.name());
    if !row.aliases.is_empty() {
        let _ = writeln!(out, "Also spelled `{}`.", row.aliases.join("`, `"));
    }
    results(row, out);
    for example in row.examples {
        let _ = write!(out, "\n```text\n{example}\n```\n");
    }
}

fn results(row: &Row, out: &mut String) {
    if !row.gives.is_empty() {
        let heading = if row.class() == Class::Event { "tells" } else { "gives" };
        let _ = write!(out, "\n| {heading} | kind |\n|---|---|\n");
        for it in row.gives {
            let _ = writeln!(out, "| {} | {} |", it.name, it.kind);
        }
    }
    if !row.flags.is_empty() {
        out.push_str("\n| bit | asks for | kind | meaning |\n|---|---|---|---|\n");
        for it in row.flags {
            let _ = writeln!(out, "| {} | {} | {} | {} |", it.bit, it.name, it.kind, it.help);
        }
    }
}
