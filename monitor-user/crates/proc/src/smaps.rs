//! `/proc/<pid>/smaps_rollup`: the proportional set size (PSS).
//!
//! In: the text of the file. Out: bytes. Opens no file.
//! The kernel walks all page tables to write it, so it is read only on request. Its descriptor must
//! not be cached: it refers to the address space at the time of open, which exec(2) replaces.

use super::scan::{MalformedProc, key_and_values, lines};

/// Parses the line `Pss`, in bytes.
///
/// # Errors
///
/// Fails if the line is missing or malformed.
pub fn parse(text: &[u8]) -> Result<u64, MalformedProc> {
    lines(text)
        .filter_map(key_and_values)
        .find(|(key, _)| *key == b"Pss")
        .and_then(|(_, mut values)| values.number()?.checked_mul(1024))
        .ok_or(MalformedProc { want: "Pss" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pss_is_in_bytes() {
        let text =
            b"55e1-7ffc ---p 00000000 00:00 0   [rollup]\nRss: 9 kB\nPss: 3 kB\nPss_Anon: 1 kB\n";
        assert_eq!(parse(text), Ok(3072));
    }

    #[test]
    fn a_text_without_pss_is_malformed() {
        assert_eq!(parse(b"Rss: 9 kB\n"), Err(MalformedProc { want: "Pss" }));
    }
}
