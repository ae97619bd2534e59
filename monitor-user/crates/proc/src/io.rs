//! `/proc/<pid>/io`: bytes and calls that a process or a thread has read and written.
//!
//! In: the text of the file. Out: `Io`. The file of a process has the sums of all its threads,
//! including ended ones. Opens no file; `monitor_backends::procfs` does.

use super::scan::{MalformedProc, key_and_values, lines};

/// The values of the file, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// `rchar`.
    pub read_chars: u64,
    /// `wchar`.
    pub written_chars: u64,
    /// `syscr`.
    pub read_calls: u64,
    /// `syscw`.
    pub write_calls: u64,
    /// `read_bytes`.
    pub read_bytes: u64,
    /// `write_bytes`.
    pub written_bytes: u64,
    /// `cancelled_write_bytes`.
    pub cancelled_bytes: u64,
}

/// The keys, in the order of the file and of `Io`.
const KEYS: [&str; 7] =
    ["rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes", "cancelled_write_bytes"];

/// Parses the file.
///
/// # Errors
///
/// Fails at the first missing or malformed line.
pub fn parse(text: &[u8]) -> Result<Io, MalformedProc> {
    let mut values = [0; 7];
    let mut lines = lines(text);
    for (want, value) in KEYS.into_iter().zip(&mut values) {
        let line = lines.next().and_then(key_and_values).filter(|(key, _)| *key == want.as_bytes());
        *value = line.and_then(|(_, mut text)| text.number()).ok_or(MalformedProc { want })?;
    }
    let [read_chars, written_chars, read_calls, write_calls, rest @ ..] = values;
    let [read_bytes, written_bytes, cancelled_bytes] = rest;
    Ok(Io {
        read_chars,
        written_chars,
        read_calls,
        write_calls,
        read_bytes,
        written_bytes,
        cancelled_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_lines_parse_to_seven_numbers() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
            cancelled_write_bytes: 7\n";
        let io = parse(text).unwrap();
        assert_eq!((io.read_chars, io.write_calls, io.cancelled_bytes), (1, 4, 7));
    }

    #[test]
    fn a_truncated_text_names_the_missing_key() {
        assert_eq!(parse(b"rchar: 1\nwcha"), Err(MalformedProc { want: "wchar" }));
    }
}
