//! Sizes: lines of a file, of a function, columns of a line.
//!
//! In: a file. Out: violations of the limits, and notes on files that approach theirs.
//! Code and tests of one file are counted apart.

use super::finding::{Finding, finding, warning};
use super::source::Source;

/// The limits of docs/STYLE.md, "Sizes".
const FILE_LINES: usize = 800;
const FILE_LINES_NOTE: usize = 500;
const FUNCTION_LINES: usize = 80;
const COLUMNS: usize = 100;

/// Violations and notes.
pub fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::from_iter(check_file(source));
    findings.extend(check_functions(source));
    findings.extend(check_columns(source));
    findings
}

fn check_file(source: &Source) -> Option<Finding> {
    let all = source.text.lines().count();
    let code = source.tests_from.map_or(all, |from| from - 1);
    let longest = code.max(all - code);
    let why = "a file is one concept";
    let todo = "find the seam and make it two files with two names";
    if longest > FILE_LINES {
        let what = format!("{longest} lines, not more than {FILE_LINES}");
        return Some(finding(1, what, why, todo));
    }
    let what = format!("{longest} lines, where is the seam");
    (longest > FILE_LINES_NOTE).then(|| warning(1, what, why, todo))
}

fn check_functions(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for start in source.find(&["fn"]) {
        let Some(open) = body(source, start) else { continue };
        let first = source.tokens[start].line;
        let last = source.tokens.get(source.closing(open)).map_or(first, |token| token.line);
        let lines = last - first + 1;
        if lines > FUNCTION_LINES {
            findings.push(finding(
                first,
                format!(
                    "`{}` has {lines} lines, not more than {FUNCTION_LINES}",
                    source.at(start + 1)
                ),
                "a function that does not fit on a screen is not read as a whole",
                "name its parts and make them functions",
            ));
        }
    }
    findings
}

/// Where the body of the function opens; a function pointer and a method of a trait have none.
fn body(source: &Source, start: usize) -> Option<usize> {
    let mut index = start + 1;
    while index < source.tokens.len() {
        match source.at(index) {
            "{" => return Some(index),
            ";" | "," | ")" | "]" | "}" | "=" => return None,
            "(" | "[" => index = source.closing(index) + 1,
            _ => index += 1,
        }
    }
    None
}

fn check_columns(source: &Source) -> Vec<Finding> {
    let long = (1..).zip(source.text.lines()).filter(|(_, line)| {
        // A link cannot be broken, and a quoted line of the kernel should not be.
        line.chars().count() > COLUMNS && !line.contains("https://")
    });
    long.map(|(number, line)| {
        finding(
            number,
            format!("{} columns, not more than {COLUMNS}", line.chars().count()),
            "two files side by side must fit on a screen",
            "break the line; rustfmt leaves comments and strings to you",
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(text: &str, expected: &[&str]) {
        let source = Source::new("x.rs", text).expect("the case is Rust");
        let found: Vec<String> = check(&source).into_iter().map(|finding| finding.what).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn eighty_lines_are_a_function_and_eighty_one_are_too_many() {
        let function =
            |lines: usize| format!("fn f(x: [u8; 2]) {{\n{}}}\n", "x();\n".repeat(lines - 2));
        check_text(&function(80), &[]);
        check_text(&function(81), &["`f` has 81 lines, not more than 80"]);
    }

    #[test]
    fn tests_are_counted_apart() {
        let text =
            format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(450), "\n".repeat(450));
        check_text(&text, &[]);
    }

    #[test]
    fn from_five_hundred_lines_on_a_note_asks_for_the_seam_and_eight_hundred_are_the_limit() {
        check_text(&"\n".repeat(500), &[]);
        check_text(&"\n".repeat(501), &["501 lines, where is the seam"]);
        check_text(&"\n".repeat(800), &["800 lines, where is the seam"]);
        check_text(&"\n".repeat(801), &["801 lines, not more than 800"]);
    }

    #[test]
    fn a_trait_method_and_a_function_pointer_have_no_body() {
        let text = format!("trait T {{ fn f(&self); }} type F = fn(u8) -> u8; {}", "\n".repeat(90));
        check_text(&text, &[]);
    }
}
