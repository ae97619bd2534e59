//! Identifiers as in C: names of services and variables.
//!
//! Checks the form only, not that a service of the name exists.

use super::limit;
use std::fmt;

/// A letter or `_`, then letters, digits and `_`; at most `limit::NAME` bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// Returns the name, if the text is an identifier.
    pub fn new(text: &str) -> Option<Self> {
        let is_name = text.bytes().next().is_some_and(is_start)
            && text.bytes().all(is_part)
            && text.len() <= limit::NAME;
        is_name.then(|| Self(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether a name may begin with this byte.
pub(super) const fn is_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

/// Returns whether a name may contain this byte.
pub(super) const fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_identifier_of_c() {
        for text in ["a", "_", "stop", "cnt_add2", &"x".repeat(limit::NAME)] {
            assert!(Name::new(text).is_some(), "{text}");
        }
        for text in ["", "2a", "a-b", "ä", "a b", &"x".repeat(limit::NAME + 1)] {
            assert!(Name::new(text).is_none(), "{text}");
        }
    }
}
