//! The tree: the entries of the top folder, the names of files, and paths of one machine.
//!
//! In: the paths of the workspace, and each text. Out: unknown entries of the top folder, modules
//! whose name is no noun of the domain, and paths that exist on one machine only.

use super::finding::{Finding, finding};

/// The entries of the top folder besides dot-files; docs/ARCHITECTURE.md says what each is.
const TOP: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "docs",
    "monitor-ebpf",
    "monitor-user",
    "tests",
    "xtask",
];

/// Names that do not say what is in the file.
const NO_NOUNS: &[&str] =
    &["common", "helper", "helpers", "manager", "misc", "util", "utilities", "utils"];

/// Folders that differ from machine to machine.
const MACHINE: &[&str] = &["home", "root", "tmp", "work"];
/// RecordOptions texts of other machines.
const RECORDED: &[&str] = &["tests/fixture/", "tests/golden/"];

/// What is wrong with the folder and the name of a file.
pub fn check_path(path: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let top = path.split('/').next().unwrap_or(path);
    if !top.starts_with('.') && !TOP.contains(&top) {
        findings.push(finding(
            1,
            format!("`{top}` is no entry of the top folder"),
            "the top folder is the table of contents, and stays one page",
            "move it below one of the entries in xtask/src/tidy/tree.rs",
        ));
    }
    let mut names = path.split('/').map(|name| name.split('.').next().unwrap_or(name));
    if let Some(name) = names.find(|name| NO_NOUNS.contains(name)) {
        findings.push(finding(
            1,
            format!("`{name}` names nothing"),
            "a place without a subject collects whatever has no other",
            "find the noun for what is in it",
        ));
    }
    findings
}

/// Paths of one machine.
pub fn check_text(path: &str, text: &str) -> Vec<Finding> {
    if RECORDED.iter().any(|folder| path.starts_with(folder)) {
        return Vec::new();
    }
    let lines = (1..).zip(text.lines()).filter(|(_, line)| names_a_machine(line));
    lines
        .map(|(number, _)| {
            finding(
                number,
                "a path of one machine".to_owned(),
                "it is not there on the next one",
                "write it from the root of the workspace, or take it from the environment",
            )
        })
        .collect()
}

fn names_a_machine(line: &str) -> bool {
    MACHINE.iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + path.len()..].chars().next();
            let begins = before.is_none_or(|it| !it.is_alphanumeric() && !"/._-}>~".contains(it));
            begins && after.is_some_and(char::is_alphanumeric)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_entry_at_the_top_is_named() {
        assert_eq!(check_path("scripts/x.sh").len(), 1);
        assert_eq!(check_path(".ci/run").len(), 0);
        assert_eq!(check_path("xtask/src/main.rs").len(), 0);
    }

    #[test]
    fn a_name_is_a_noun_of_the_domain() {
        assert_eq!(check_path("monitor-user/src/utils.rs").len(), 1);
        assert_eq!(check_path("tests/it/common/mod.rs").len(), 1);
        assert_eq!(check_path("monitor-user/src/model/utilization.rs").len(), 0);
    }

    #[test]
    fn a_path_of_a_machine_is_found_and_a_relative_one_is_not() {
        let machine = ["", "work", "main"].join("/");
        assert!(names_a_machine(&format!("cd {machine}")));
        assert!(names_a_machine(&machine));
        assert!(!names_a_machine(&format!("docs{machine}")));
        assert!(!names_a_machine("tests/it/root/block.rs"));
    }
}
