//! `cargo xtask docs`: the pages that the program prints, and the links of all pages.
//!
//! In: `PAGES` and all Markdown files. Out: the pages, or with `--check` each link to a missing
//! file; a test compares the pages with the output of the program (`tests/it/page.rs`).
//! Does not follow links out of the workspace: a test must not need the network.

use crate::arguments::Arguments;
use crate::verdict::Outcome;
use crate::{step, workspace};
use std::fs;

/// A page that `monitor` prints; to add one is to add its row.
struct Page {
    path: &'static str,
    /// The arguments of `monitor` that print it.
    arguments: &'static [&'static str],
}

const PAGES: &[Page] = &[
    Page { path: "docs/FIELDS.md", arguments: &["fields", "--format=markdown"] },
    Page {
        path: "docs/CONFORMANCE.md",
        arguments: &["conformance", "--list", "--format=markdown"],
    },
    Page { path: "docs/SERVICES.md", arguments: &["services", "--format=markdown"] },
];

/// `docs` or `docs --check`.
pub fn run(arguments: &Arguments) -> Outcome {
    let is_check = arguments.has("--check");
    for page in PAGES.iter().filter(|_| !is_check) {
        let path = workspace::root().join(page.path);
        let printed = print(page)?;
        fs::write(&path, printed).map_err(|error| workspace::cannot("write", &path, &error))?;
    }
    check()
}

/// Whether each link of each page leads to a file.
pub fn check() -> Outcome {
    let dead = dead_links()?;
    for line in &dead {
        println!("{line}");
    }
    if dead.is_empty() { Ok(()) } else { Err(format!("{} dead links, listed above", dead.len())) }
}

fn print(page: &Page) -> Result<String, String> {
    let mut command = step::cargo();
    command
        .args(["run", "--quiet", "--all-features", "--package", workspace::PACKAGE, "--"])
        .args(page.arguments);
    let printed = step::answer(&mut command)
        .ok_or_else(|| format!("`{}` failed; run it to see why", step::line(&command)))?;
    Ok(printed + "\n")
}

fn dead_links() -> Result<Vec<String>, String> {
    let files = workspace::files()?;
    let mut dead = Vec::new();
    for page in files.iter().filter(|path| path.ends_with(".md")) {
        let text = workspace::text(page)?.unwrap_or_default();
        for (line, link) in links(&text) {
            let target = resolved(page, &link);
            let is_there = files.iter().any(|file| {
                file.strip_prefix(&target)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            if !is_there {
                dead.push(format!("{page}:{line}: the link `{link}` leads to no file; fix it"));
            }
        }
    }
    Ok(dead)
}

/// Links into the workspace, with their lines; there are no links in code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        in_code ^= line.trim_start().starts_with("```");
        if in_code {
            continue;
        }
        // Every second piece is between backticks.
        for piece in line.split('`').step_by(2) {
            for rest in piece.split("](").skip(1) {
                let link = rest.split([')', '#', ' ']).next().unwrap_or_default();
                if !link.is_empty() && !link.contains(':') {
                    found.push((number, link.to_owned()));
                }
            }
        }
    }
    found
}

/// The path from the root of the workspace that a link on a page means.
fn resolved(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_relative_to_its_page() {
        assert_eq!(resolved("docs/STYLE.md", "TESTING.md"), "docs/TESTING.md");
        assert_eq!(resolved("docs/journal/x.md", "../../README.md"), "README.md");
    }

    #[test]
    fn code_and_other_sites_hold_no_links() {
        let text = "[a](b.md#c) and `[x](y)`\n```\n[x](y)\n```\n[s](https://a.b) [t](#u) [d](e)";
        let expected = vec![(1, "b.md".to_owned()), (5, "e".to_owned())];
        assert_eq!(links(text), expected);
    }
}
