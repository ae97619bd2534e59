//! Lines of cases, and texts with named words that they are compared with.
//!
//! In: the text of a file, the name of a runtime. Out: its lines for that runtime; the words that
//! a printed line has at the names of a pattern.

use std::collections::BTreeMap;

/// Values of names, such as `job`.
pub type Names = BTreeMap<String, String>;

/// A line that applies.
pub struct CaseLine<'t> {
    /// Its number, from 1.
    pub number: usize,
    pub verb: &'t str,
    pub rest: &'t str,
}

/// The lines of a case for a runtime.
pub fn lines<'t>(text: &'t str, runtime: &str) -> Vec<CaseLine<'t>> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let said = numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let applies = said.filter_map(|(number, line)| {
        let line = applying(line, runtime)?;
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(CaseLine { number, verb, rest })
    });
    applies.collect()
}

/// A line without the names of its runtimes, if it is for this one.
fn applying<'t>(line: &'t str, runtime: &str) -> Option<&'t str> {
    let Some(line) = line.strip_prefix('@') else { return Some(line) };
    let (names, line) = line.split_once(' ').unwrap();
    let (others, names) = names.strip_prefix('!').map_or((false, names), |names| (true, names));
    let is_named = names.split(',').any(|name| name == runtime);
    (is_named != others).then_some(line)
}

/// The words of a command; single quotes keep blanks.
pub fn words(text: &str) -> Vec<String> {
    let mut all = vec![];
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            all.push(part.to_owned());
        } else {
            all.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    all
}

/// A text with the values of its names.
pub fn filled(text: &str, names: &Names) -> String {
    let fill = |text: String, (name, value): (&String, &String)| {
        text.replace(&format!("{{{name}}}"), value)
    };
    names.iter().fold(text.to_owned(), fill)
}

/// Whether a line is as a pattern wants it; names that had no value get that of the line.
pub fn matches(pattern: &str, line: &str, names: &mut Names) -> bool {
    let pattern = squeezed(&filled(pattern, names));
    let mut found = Names::new();
    let is_match = rest_matches(&pattern, &squeezed(line), &mut found);
    if is_match {
        names.append(&mut found);
    }
    is_match
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn rest_matches(pattern: &str, text: &str, found: &mut Names) -> bool {
    let Some((literal, rest)) = pattern.split_once('{') else { return pattern == text };
    let (name, rest) = rest.split_once('}').unwrap();
    let Some(text) = text.strip_prefix(literal) else { return false };
    if let Some(value) = found.get(name) {
        return text.strip_prefix(&*value.clone()).is_some_and(|it| rest_matches(rest, it, found));
    }
    let longest = if name.is_empty() { None } else { text.find(' ') };
    let longest = longest.unwrap_or(text.len());
    let shortest = usize::from(!name.is_empty());
    let ends = (shortest..=longest).rev().filter(|end| text.is_char_boundary(*end));
    for end in ends {
        let mut tried = found.clone();
        if !name.is_empty() {
            let _new = tried.insert(name.to_owned(), text[..end].to_owned());
        }
        if rest_matches(rest, &text[end..], &mut tried) {
            *found = tried;
            return true;
        }
    }
    false
}

#[test]
fn a_pattern_names_words_of_a_line() {
    let mut names = Names::new();
    assert!(matches("job {job}: held {} on {host}", "job 7.0:  held ranks 0-1 on vm", &mut names));
    assert_eq!((names["job"].as_str(), names["host"].as_str()), ("7.0", "vm"));
    assert!(!matches("job {job}", "job 8.0", &mut names));
    assert!(!matches("{a} {a}", "1 2", &mut names) && matches("{a} {a}", "1 1", &mut names));
}
