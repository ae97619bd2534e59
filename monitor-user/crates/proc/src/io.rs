//! `/proc/<pid>/io`: what a process, or a thread, read and wrote.
//!
//! In: the text of the file. Out: `Io`. The file of a process holds the sums of all its threads,
//! ended ones included. Never opens a file; `process` and `thread` do.

use super::scan::{Malformed, key_and_values, lines};

/// The file, in its own order.
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

/// What the file says.
pub fn parse(text: &[u8]) -> Result<Io, Malformed> {
    let mut values = [0; 7];
    let mut lines = lines(text);
    for (want, value) in KEYS.into_iter().zip(&mut values) {
        let line = lines.next().and_then(key_and_values).filter(|(key, _)| *key == want.as_bytes());
        *value = line.and_then(|(_, mut text)| text.number()).ok_or(Malformed { want })?;
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
    fn seven_lines_are_seven_numbers() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
            cancelled_write_bytes: 7\n";
        let io = parse(text).unwrap();
        assert_eq!((io.read_chars, io.write_calls, io.cancelled_bytes), (1, 4, 7));
    }

    #[test]
    fn a_cut_text_names_what_is_missing() {
        assert_eq!(parse(b"rchar: 1\nwcha"), Err(Malformed { want: "wchar" }));
    }
}
