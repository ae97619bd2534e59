//! Runs the cases of `tests/request/language`: lines and how they are parsed.
//!
//! A case is a line and its expectation: by default it prints as it was written, in both dialects.

use monitor_omis::{Dialect, Fault, Node, caret, limit, parse, status};
use std::fs;
use std::path::Path;

struct LanguageCase<'t> {
    place: String,
    /// `>` for a request, `<` for a reply.
    sign: &'t str,
    text: &'t str,
    printed: &'t str,
    refused: Option<&'t str>,
    refused_strict: Option<&'t str>,
}

fn cases<'t>(name: &str, text: &'t str) -> Vec<LanguageCase<'t>> {
    let mut cases: Vec<LanguageCase> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let place = format!("{name}:{number}");
        let (sign, text) = line.split_once(' ').unwrap_or((line, ""));
        match (sign, cases.last_mut()) {
            ("" | "#", _) => {}
            (">" | "<", _) => cases.push(LanguageCase {
                place,
                sign,
                text,
                printed: text,
                refused: None,
                refused_strict: None,
            }),
            ("=", Some(case)) => case.printed = text,
            ("!", Some(case)) => (case.refused, case.refused_strict) = (Some(text), Some(text)),
            ("strict", Some(case)) => case.refused_strict = text.strip_prefix("! "),
            _ => panic!("{place}: unexpected line in a case: {line}"),
        }
    }
    cases
}

/// The line as it is printed, or the reply to an invalid one.
fn parsed(case: &LanguageCase, dialect: Dialect) -> Result<String, String> {
    let line = case.text.as_bytes();
    let answer = |fault: Fault| fault.reply(Node(0), Dialect::Extended).to_string();
    match case.sign {
        ">" => parse::request(line, dialect).map(|it| it.to_string()).map_err(answer),
        _ => parse::reply(line).map(|it| it.to_string()).map_err(answer),
    }
}

fn expected(case: &LanguageCase, refused: Option<&str>) -> Result<String, String> {
    refused.map_or(Ok(case.printed.to_owned()), |line| Err(line.to_owned()))
}

fn mismatches(case: &LanguageCase) -> Vec<String> {
    let dialects = [(Dialect::Extended, case.refused), (Dialect::Strict, case.refused_strict)];
    let wrong = dialects.into_iter().filter_map(|(dialect, refused)| {
        let (got, want) = (parsed(case, dialect), expected(case, refused));
        (got != want)
            .then(|| format!("{} {dialect:?}\n  got  {got:?}\n  want {want:?}", case.place))
    });
    wrong.collect()
}

#[test]
fn every_line_of_the_cases_is_parsed_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/request/language");
    let mut wrong_cases = Vec::new();
    let mut n_cases = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "txt") {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy();
            let cases = cases(&name, &text);
            n_cases += cases.len();
            wrong_cases.extend(cases.iter().flat_map(mismatches));
        }
    }
    assert!(wrong_cases.is_empty(), "{}", wrong_cases.join("\n"));
    assert!(n_cases > 150, "only {n_cases} cases found");
}

const PAGE: &str = include_str!("../../docs/REQUESTS.md");

#[test]
fn the_page_has_every_status() {
    let rows = status::TABLE.iter();
    let rows = rows.map(|row| format!("| {} | `{}` | {} |\n", row.status.0, row.name, row.meaning));
    let table: String = rows.collect();
    assert!(PAGE.contains(&table), "docs/REQUESTS.md lacks this table:\n{table}");
}

#[test]
fn the_page_has_the_limits() {
    let numbers = [
        (limit::REQUEST.line, limit::REPLY.line),
        (limit::REQUEST.members, limit::REPLY.members),
        (limit::REQUEST.depth, limit::REPLY.depth),
        (limit::REQUEST.elements, limit::REPLY.elements),
        (limit::NAME, limit::NAME),
    ];
    let page = PAGE.replace(',', "");
    for (request, reply) in numbers {
        assert!(page.contains(&format!("| {request} | {reply} |\n")), "{request}, {reply}");
    }
}

#[test]
fn the_examples_of_the_page_can_be_parsed() {
    let mut n_lines = 0;
    for line in PAGE.lines().filter(|line| !line.contains(" = ")) {
        // Three spaces or more begin an explanation.
        let text = |rest: &'static str| rest.trim_start().split("   ").next().unwrap();
        if let Some(request) = line.strip_prefix("request   ").map(text) {
            assert_eq!(
                parse::request(request.as_bytes(), Dialect::Strict).unwrap().to_string(),
                request
            );
        } else if let Some(reply) = line.strip_prefix("reply     ").map(text) {
            assert_eq!(parse::reply(reply.as_bytes()).unwrap().to_string(), reply);
        } else {
            continue;
        }
        n_lines += 1;
    }
    assert_eq!(n_lines, 7, "the lines under \"Overview\"");
}

#[test]
fn the_page_shows_a_fault_with_its_caret() {
    let line = b"10 [0] stop([1)";
    let fault = parse::request(line, Dialect::Extended).unwrap_err();
    assert!(PAGE.contains(&format!("```text\n{}\n```", caret::render(line, &fault))));
    assert!(PAGE.contains(&fault.reply(Node(0), Dialect::Extended).to_string()));
}
