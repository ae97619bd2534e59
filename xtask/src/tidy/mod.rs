//! `cargo xtask tidy`: the rules of docs/STYLE.md that a program can hold.
//!
//! In: the files of the workspace. Out: each violation as `file:line: what; why; what to do`.
//! A rule is a file with a table at its top and a function from a file to its findings. They also
//! run as a test.

mod circles;
mod counted;
mod files;
mod finding;
mod forbidden;
mod lexer;
mod modules;
mod path;
mod ratchet;
mod size;
mod source;
mod terms;
mod tree;
mod type_names;
mod walks;
mod words;

use crate::arguments::{Arguments, Takes};
use crate::verdict::Outcome;
use crate::workspace;
use files::Files;
use finding::{Finding, Weight, finding};
use modules::ModuleTree;
use ratchet::Count;
use source::Source;
use std::collections::HashMap;

/// Nothing, or the name of a counted check and where to look.
pub const TAKES: Takes =
    Takes {
        flags: &["--summary"], operands: "words|type_names|circles [PATH…]", ..Takes::NOTHING
    };

/// Runs all checks, or lists what one of the counted checks finds.
pub fn run(arguments: &Arguments) -> Outcome {
    match arguments.operands.split_first() {
        Some((name, paths)) => counted::list(arguments, name, paths),
        None => check(),
    }
}

/// Prints what all checks find; fails if there is a violation.
pub fn check() -> Outcome {
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
        report.add(&path, tree::check_path(&path));
    }
    let files = Files::read()?;
    for (path, text) in &files.texts {
        report.add(path, tree::check_text(path, text));
    }
    for (path, line) in files.broken() {
        report.add(path, vec![not_rust(*line)]);
    }
    for source in files.sources() {
        report.add(&source.path, check_rust(source, &mut headers));
    }
    if let Some((_, page)) = files.texts.iter().find(|(path, _)| path == walks::PAGE) {
        let tree = ModuleTree::new(files.sources(), &files.texts);
        report.add(walks::PAGE, walks::check(page, &tree));
    }
    for count in counted::check(&files)? {
        match count {
            Count::Holds(note) => report.warnings.push(note),
            Count::Exceeded(what) => report.violations.push(what),
        }
    }
    Ok(report)
}

fn not_rust(line: usize) -> Finding {
    let what = "not Rust from here on".to_owned();
    finding(line, what, "the rules read tokens", "close what is open")
}

fn check_rust(source: &Source, headers: &mut HashMap<String, String>) -> Vec<Finding> {
    let mut findings = size::check(source);
    findings.extend(forbidden::check(source));
    findings.extend(check_unique(source, headers));
    findings
}

/// A header that was copied with its file.
fn check_unique(source: &Source, headers: &mut HashMap<String, String>) -> Option<Finding> {
    let header = forbidden::header(source)?.to_owned();
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
