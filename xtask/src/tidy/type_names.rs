//! `cargo xtask tidy type_names [PATH…]`: names that too many types have.
//!
//! In: the Rust files. Out: each name that is defined more than `MOST` times as a `struct`, `enum`,
//! `trait`, `union` or free `type`. Associated types and tests are left out.

use super::finding::CountedFinding;
use super::source::{Source, is_word};
use std::collections::BTreeMap;

const MOST: usize = 4;

/// Each name, with the places that define it.
pub fn find(sources: &[Source]) -> Vec<CountedFinding> {
    let mut places: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources {
        for (name, line) in definitions(source) {
            places.entry(name).or_default().push((&source.path, line));
        }
    }
    places.retain(|_, places| places.len() > MOST);
    let found = places.into_iter().map(|(name, places)| {
        let lines = places.iter().map(|(path, line)| format!("\n    {path}:{line}"));
        let text =
            format!("`{name}` is defined {} times:{}", places.len(), lines.collect::<String>());
        CountedFinding { path: places[0].0.to_owned(), key: name.to_owned(), text }
    });
    found.collect()
}

/// The types that a file defines outside tests, with their lines.
fn definitions(source: &Source) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let mut associated_until = 0;
    for (index, token) in source.tokens.iter().enumerate() {
        if matches!(token.text.as_str(), "impl" | "trait") {
            associated_until = associated_until.max(end_of_body(source, index));
        }
        let is_type = match token.text.as_str() {
            "struct" | "enum" | "trait" => true,
            "union" => matches!(source.at(index + 2), "{" | "<"),
            "type" => index >= associated_until,
            _ => false,
        };
        let is_name = is_word(source.at(index + 1));
        if is_type && is_name && !source.is_test(token.line) {
            found.push((source.at(index + 1), token.line));
        }
    }
    found
}

/// The index where the body of an `impl` or a `trait` closes; `impl` of an argument has none.
fn end_of_body(source: &Source, mut index: usize) -> usize {
    while index < source.tokens.len() {
        match source.at(index) {
            "{" => return source.closing(index),
            ";" | ")" | "=" | "," | "}" => return 0,
            "(" | "[" => index = source.closing(index) + 1,
            _ => index += 1,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[(&str, usize)]) {
        let source = Source::new(path, text).expect("the case is Rust");
        assert_eq!(definitions(&source), expected);
    }

    #[test]
    fn all_kinds_of_types_are_definitions() {
        let text = "struct A; enum B {} trait C { type X; }\nunion D { x: u8 } type E = u8;";
        check("p/src/x.rs", text, &[("A", 1), ("B", 1), ("C", 1), ("D", 2), ("E", 2)]);
    }

    #[test]
    fn associated_types_and_tests_are_left_out() {
        let text = "impl<T: Fn(u8)> I for A<T> { type Item = u8; }\nfn f() -> impl G { x }
            #[cfg(test)] mod tests { struct Y; }";
        check("p/src/x.rs", text, &[]);
        check("tests/it/x.rs", "struct A;", &[]);
    }

    #[test]
    fn a_name_may_be_defined_four_times() {
        let sources = |count: usize| {
            let path = |number| format!("p/src/{number}.rs");
            let source = |number| Source::new(&path(number), "struct A;").expect("it is Rust");
            (0..count).map(source).collect::<Vec<_>>()
        };
        assert!(find(&sources(4)).is_empty());
        let found = find(&sources(5));
        assert_eq!(found.len(), 1);
        assert!(found[0].text.starts_with("`A` is defined 5 times:\n    p/src/0.rs:1\n"));
    }
}
