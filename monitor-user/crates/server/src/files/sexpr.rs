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
}
