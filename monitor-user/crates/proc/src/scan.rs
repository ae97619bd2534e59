//! A scanner for the text of a `/proc` file.
//!
//! In: bytes, possibly hostile. Out: numbers and words, or `None` where the text ends or does not
//! match. Allocates nothing, never panics and opens no file.

/// A malformed `/proc` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedProc {
    /// The first field that is missing or malformed.
    pub want: &'static str,
}

/// Builds the error for a missing field, for `ok_or_else`.
pub const fn wanted(want: &'static str) -> impl FnOnce() -> MalformedProc {
    move || MalformedProc { want }
}

/// The rest of a text.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    /// Starts at the beginning of a text.
    pub const fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    /// Returns the next word, without white space.
    pub fn word(&mut self) -> Option<&'a [u8]> {
        self.skip_blanks();
        let end = self.rest.iter().position(u8::is_ascii_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Skips words.
    pub fn skip(&mut self, words: usize) {
        for _ in 0..words {
            if self.word().is_none() {
                return;
            }
        }
    }

    /// Returns the next unsigned number.
    pub fn number(&mut self) -> Option<u64> {
        self.skip_blanks();
        let mut value = 0_u64;
        let mut digits = 0;
        for byte in self.rest {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
            digits += 1;
        }
        self.rest = self.rest.get(digits..)?;
        (digits > 0).then_some(value)
    }

    /// Returns the next signed number.
    pub fn signed(&mut self) -> Option<i64> {
        self.skip_blanks();
        let Some(rest) = self.rest.strip_prefix(b"-") else {
            return i64::try_from(self.number()?).ok();
        };
        self.rest = rest;
        0_i64.checked_sub_unsigned(self.number()?)
    }

    fn skip_blanks(&mut self) {
        while let [b' ' | b'\t' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }
}

/// Parses a text that is a single number.
pub fn only_number(text: &[u8]) -> Option<u64> {
    Scan::new(text).number()
}

/// Iterates over the lines of a text; empty lines are skipped.
pub fn lines(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

/// Splits a line `Key: values`.
pub fn key_and_values(line: &[u8]) -> Option<(&[u8], Scan<'_>)> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    Some((line.get(..colon)?, Scan::new(line.get(colon + 1..)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_is_none() {
        assert_eq!(only_number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(only_number(b"18446744073709551616"), None);
    }

    #[test]
    fn a_negative_number_keeps_its_sign() {
        let mut scan = Scan::new(b" -5 7");
        assert_eq!((scan.signed(), scan.signed(), scan.signed()), (Some(-5), Some(7), None));
    }

    #[test]
    fn words_end_at_any_blank() {
        let mut scan = Scan::new(b"a\tb  c\n");
        scan.skip(1);
        assert_eq!(
            (scan.word(), scan.word(), scan.word()),
            (Some(&b"b"[..]), Some(&b"c"[..]), None)
        );
    }
}
