//! `cargo xtask tidy`: the rules of docs/STYLE.md that a program can hold.
//!
//! In: the files of the workspace. Out: each violation as `file:line: what; why; what to do`.
//! A rule is a file with a table at its top and a function from a file to its findings. It also
//! runs as a test, so that nobody needs to remember it.

mod home;
mod layer;
mod path;
mod size;
mod source;
mod tree;
mod word;

use crate::{Outcome, workspace};
use source::Source;
use std::collections::HashMap;

/// What a rule found in one file.
pub struct Finding {
    line: usize,
    what: String,
    why: &'static str,
    todo: &'static str,
    weight: Weight,
}

#[derive(Clone, Copy, PartialEq)]
enum Weight {
    Warns,
    Fails,
}

/// A violation.
fn finding(line: usize, what: String, why: &'static str, todo: &'static str) -> Finding {
    Finding { line, what, why, todo, weight: Weight::Fails }
}

/// Something to think about.
fn warning(line: usize, what: String, why: &'static str, todo: &'static str) -> Finding {
    Finding { weight: Weight::Warns, ..finding(line, what, why, todo) }
}

/// Prints what it finds; fails if there is a violation.
pub fn run(_option: Option<&str>) -> Outcome {
    let report = check_workspace()?;
    for line in report.warnings.iter().chain(&report.violations) {
        println!("{line}");
    }
    match report.violations.len() {
        0 => Ok(()),
        count => Err(format!("{count} violations of docs/STYLE.md, listed above")),
    }
}

/// The lines to print.
struct Report {
    warnings: Vec<String>,
    violations: Vec<String>,
}

fn check_workspace() -> Result<Report, String> {
    let mut report = Report { warnings: Vec::new(), violations: Vec::new() };
    let mut headers = HashMap::new();
    for path in workspace::files()? {
        let mut findings = tree::check_path(&path);
        if let Some(text) = workspace::text(&path)? {
            findings.extend(tree::check_text(&path, &text));
            if path == "monitor-user/Cargo.toml" {
                findings.extend(home::check_manifest(&text));
            }
            if path.ends_with(".rs") {
                findings.extend(check_rust(&path, &text, &mut headers));
            }
        }
        report.add(&path, findings);
    }
    Ok(report)
}

fn check_rust(path: &str, text: &str, headers: &mut HashMap<String, String>) -> Vec<Finding> {
    let source = match Source::new(path, text) {
        Ok(source) => source,
        Err(line) => {
            let what = "not Rust from here on".to_owned();
            return vec![finding(line, what, "the rules read tokens", "close what is open")];
        }
    };
    let paths = path::paths(&source, &layer::module(path));
    let mut findings = layer::check(&source, &paths);
    findings.extend(home::check(&source, &paths));
    findings.extend(size::check(&source));
    findings.extend(word::check(&source));
    findings.extend(check_unique(&source, headers));
    findings
}

/// A header that was copied with its file.
fn check_unique(source: &Source, headers: &mut HashMap<String, String>) -> Option<Finding> {
    let header = word::header(source)?.to_owned();
    let first = headers.insert(header, source.path.clone())?;
    Some(finding(
        1,
        format!("the same header as {first}"),
        "two files that are the same thing are one file; else one header is wrong",
        "say what this file is",
    ))
}

impl Report {
    fn add(&mut self, path: &str, findings: Vec<Finding>) {
        for Finding { line, what, why, todo, weight } in findings {
            match weight {
                Weight::Warns => {
                    self.warnings.push(format!("{path}:{line}: warning: {what}; {why}; {todo}"));
                }
                Weight::Fails => {
                    self.violations.push(format!("{path}:{line}: {what}; {why}; {todo}"))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let report = check_workspace().expect("the workspace can be read");
        assert!(report.violations.is_empty(), "\n{}\n", report.violations.join("\n"));
    }
}
