//! Checks whose findings are counted: `words`, `type_names`, `circles`.
//!
//! In: the files of the workspace. Out: the findings as a list or a summary, and the comparison
//! of their number with the one in the check's file (`ratchet.rs`).

use super::files::Files;
use super::finding::CountedFinding;
use super::ratchet::{self, Count};
use super::{circles, type_names, words};
use crate::arguments::Arguments;
use crate::verdict::Outcome;
use crate::workspace;
use std::collections::BTreeMap;
use std::io::Write;

/// One check.
struct Counted {
    name: &'static str,
    find: fn(&Files) -> Result<Vec<CountedFinding>, String>,
}

const CHECKS: &[Counted] = &[
    Counted { name: "words", find: words::find },
    Counted { name: "type_names", find: |files| Ok(type_names::find(files.sources())) },
    Counted { name: "circles", find: |files| Ok(circles::find(files.sources())) },
];

/// Compares the number of findings of each check with its file.
pub fn check(files: &Files) -> Result<Vec<Count>, String> {
    let count = |check: &Counted| ratchet::check(check.name, (check.find)(files)?.len());
    CHECKS.iter().map(count).collect()
}

/// Prints the findings of one check below the paths, or all; with `--summary` only their numbers.
pub fn list(arguments: &Arguments, name: &str, paths: &[String]) -> Outcome {
    let Some(check) = CHECKS.iter().find(|check| check.name == name) else {
        let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        return Err(format!("`{name}` is none of the checks that list: {}", names.join(", ")));
    };
    let paths: Vec<String> = paths.iter().map(|path| workspace::relative(path)).collect();
    let mut found = (check.find)(&Files::read()?)?;
    found.retain(|found| {
        paths.is_empty() || paths.iter().any(|path| workspace::is_below(&found.path, path))
    });
    let mut text = String::new();
    if arguments.has("--summary") {
        text += &counts(&found, name, |found| found.key.clone());
        text += &counts(&found, "folders", |found| folder(&found.path));
    } else {
        found.iter().for_each(|found| text += &format!("{}\n", found.text));
    }
    text += &format!("{name}: {} findings\n", found.len());
    // A reader such as `head` may close the pipe early.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if found.is_empty() { Ok(()) } else { Err(String::new()) }
}

fn counts(
    found: &[CountedFinding],
    title: &str,
    key: impl Fn(&CountedFinding) -> String,
) -> String {
    let mut counts = BTreeMap::new();
    for found in found {
        *counts.entry(key(found)).or_insert(0) += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let lines = counts.into_iter().map(|(name, count)| format!("{count:>7}  {name}\n"));
    format!("{title}:\n{}", lines.collect::<String>())
}

/// The folder that a summary counts a file to.
fn folder(path: &str) -> String {
    let depth = if path.starts_with("monitor-user/") || path.starts_with("tests/") { 3 } else { 2 };
    let folders: Vec<&str> = path.split('/').collect();
    let depth = depth.min(folders.len() - 1).max(1);
    folders[..depth].join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_by_module_and_crate() {
        assert_eq!(folder("monitor-user/src/meter/job.rs"), "monitor-user/src/meter");
        assert_eq!(folder("monitor-user/crates/proc/src/stat.rs"), "monitor-user/crates/proc");
        assert_eq!(folder("docs/journal/x.md"), "docs/journal");
        assert_eq!(folder("README.md"), "README.md");
    }
}
