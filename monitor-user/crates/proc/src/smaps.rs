//! `/proc/<pid>/smaps_rollup`: the proportional share of resident memory.
//!
//! In: the text of the file. Out: bytes. The kernel walks all page tables to write it, so it is
//! read only when asked for. Its descriptor must not be kept: it holds the memory that the
//! process had when it was opened, which an execution replaces. Never opens a file.

use super::scan::{Malformed, key_and_values, lines};

/// The line `Pss`, in bytes.
pub fn parse(text: &[u8]) -> Result<u64, Malformed> {
    lines(text)
        .filter_map(key_and_values)
        .find(|(key, _)| *key == b"Pss")
        .and_then(|(_, mut values)| values.number()?.checked_mul(1024))
        .ok_or(Malformed { want: "Pss" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_in_bytes() {
        let text =
            b"55e1-7ffc ---p 00000000 00:00 0   [rollup]\nRss: 9 kB\nPss: 3 kB\nPss_Anon: 1 kB\n";
        assert_eq!(parse(text), Ok(3072));
    }

    #[test]
    fn a_text_without_it_says_so() {
        assert_eq!(parse(b"Rss: 9 kB\n"), Err(Malformed { want: "Pss" }));
    }
}
