//! JSON that may be shown in a terminal.
//!
//! JSON escapes the control characters below U+0020 only. DEL and U+0080 to U+009F are control
//! characters too (U+009B begins an escape sequence), and others change the direction of writing;
//! names of processes may have all of them.

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{Result, Write};

/// Whether a terminal may act on a character, or show text in another order because of it.
pub fn is_active(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Serializes as compact JSON in which each of these characters is escaped.
///
/// # Errors
///
/// Those of the writer, and of a value whose keys are not strings.
pub fn write_json(out: impl Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Escaped))
}

/// As [`write_json`], to a string.
///
/// # Errors
///
/// Those of a value whose keys are not strings.
pub fn json_text(value: &(impl Serialize + ?Sized)) -> serde_json::Result<String> {
    let mut out = Vec::new();
    write_json(&mut out, value)?;
    String::from_utf8(out).map_err(serde::ser::Error::custom)
}

struct Escaped;

impl Formatter for Escaped {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> Result<()> {
        let mut rest = fragment;
        while let Some((at, letter)) = rest.char_indices().find(|(_, letter)| is_active(*letter)) {
            out.write_all(&rest.as_bytes()[..at])?;
            // All of them are below U+10000.
            write!(out, "\\u{:04x}", u32::from(letter))?;
            rest = &rest[at + letter.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }

    /// JSON of others: such characters are in its strings only, except line ends and tabs.
    fn write_raw_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> Result<()> {
        for part in fragment.split_inclusive(['\n', '\r', '\t']) {
            let text = part.trim_end_matches(['\n', '\r', '\t']);
            self.write_string_fragment(out, text)?;
            if text.len() < part.len() {
                out.write_all(b" ")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    #[test]
    fn no_character_that_a_terminal_acts_on_is_raw_and_all_are_read_back() {
        let all: String = ('\0'..='\u{ffff}').collect();
        let text = json_text(&all).expect("a string");
        assert!(!text.chars().any(is_active));
        assert_eq!(serde_json::from_str::<String>(&text).expect("JSON"), all);
        assert!(text.contains("\\u009b") && text.contains("\u{e9}"));
    }

    #[test]
    fn raw_json_is_escaped_too() {
        let raw = RawValue::from_string("{\n \"a\u{9b}\":\t\"\u{7f}\"}".into()).expect("JSON");
        assert_eq!(json_text(&raw).expect("JSON"), r#"{  "a\u009b": "\u007f"}"#);
    }
}
