//! Words of s-expressions: one record is one line.
//!
//! A word that has blanks, parentheses or quotes is written between single quotes, and a single
//! quote inside is doubled. Control characters become `?`, so that no value ends a line.

use std::fmt::Write;

/// Characters of which none is in a word without quotes.
const QUOTED: &[char] = &[' ', '(', ')', '\'', '"', '\\', ';'];

/// Appends a word.
pub fn put_word(out: &mut String, word: &str) {
    let needs_quotes = word.is_empty() || word.contains(QUOTED);
    if needs_quotes {
        out.push('\'');
    }
    for it in word.chars() {
        match it {
            '\'' => out.push_str("''"),
            it if it.is_control() => out.push('?'),
            it => out.push(it),
        }
    }
    if needs_quotes {
        out.push('\'');
    }
}

/// Appends a list of a name and a value.
pub fn put_pair(out: &mut String, name: &str, value: &str) {
    let _ = write!(out, "({name} ");
    put_word(out, value);
    out.push(')');
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SexprToken {
    /// `(`
    Open,
    /// `)`
    Close,
    /// A word, without its quotes.
    Word(String),
}

/// The parts of a text.
///
/// # Errors
///
/// When a quotation mark has no other, or a character is in no word.
pub fn tokens(text: &str) -> Result<Vec<SexprToken>, String> {
    let mut all = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '(' => {
                all.push(SexprToken::Open);
                1
            }
            ')' => {
                all.push(SexprToken::Close);
                1
            }
            '\'' => {
                let (word, length) = quoted(rest)?;
                all.push(SexprToken::Word(word));
                length
            }
            '"' | '\\' | ';' => return Err(format!("{first:?} is in no word without quotes")),
            _ => {
                let ends = |it: char| it.is_whitespace() || QUOTED.contains(&it);
                let length = rest.find(ends).unwrap_or(rest.len());
                all.push(SexprToken::Word(rest[..length].to_owned()));
                length
            }
        };
        rest = rest[length..].trim_start();
    }
    Ok(all)
}

/// The word between the quotes that a text begins with, and the bytes of all of it.
fn quoted(text: &str) -> Result<(String, usize), String> {
    let mut word = String::new();
    let mut at = 1;
    loop {
        let end = text[at..].find('\'').ok_or("a quotation mark has no other")?;
        word.push_str(&text[at..at + end]);
        at += end + 1;
        if !text[at..].starts_with('\'') {
            return Ok((word, at));
        }
        word.push('\'');
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, written: &str) {
        let mut out = String::new();
        put_word(&mut out, word);
        assert_eq!(out, written);
    }

    #[test]
    fn a_word_is_quoted_if_it_must_be() {
        check("/usr/bin/env", "/usr/bin/env");
        check("", "''");
        check("a b", "'a b'");
        check("it's", "'it''s'");
        check("(sd-pam)", "'(sd-pam)'");
        check("a;b", "'a;b'");
        check("größe", "größe");
    }

    #[test]
    fn no_character_ends_a_record() {
        check("a\nb\tc\x7f\0\u{85}", "a?b?c???");
        check("a\n b", "'a? b'");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let word = |it: &str| SexprToken::Word(it.to_owned());
        for it in ["a", "", "it's", "a b", "(x)", "a;b", "größe", "''", "a\\b\"c"] {
            let mut out = "(".to_owned();
            put_word(&mut out, it);
            out.push_str(" b)");
            let want = vec![SexprToken::Open, word(it), word("b"), SexprToken::Close];
            assert_eq!(tokens(&out), Ok(want), "{out}");
        }
        for text in ["'", "('a", "\"a\"", "a;b", "a\\"] {
            assert!(tokens(text).is_err(), "{text:?}");
        }
        assert_eq!(tokens(" \n"), Ok(Vec::new()));
    }
}
