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

/// Parses the file.
///
/// # Errors
///
/// Fails at the first missing or malformed line.
pub fn parse(text: &[u8]) -> Result<Io, MalformedProc> {
    let mut lines = lines(text).map(key_and_values);
    let mut next = |want: &'static str| {
        let line = lines.next().flatten().filter(|(key, _)| *key == want.as_bytes());
        line.and_then(|(_, mut values)| values.number()).ok_or(MalformedProc { want })
    };
    // In the order of the file.
    Ok(Io {
        read_chars: next("rchar")?,
        written_chars: next("wchar")?,
        read_calls: next("syscr")?,
        write_calls: next("syscw")?,
        read_bytes: next("read_bytes")?,
        written_bytes: next("write_bytes")?,
        cancelled_bytes: next("cancelled_write_bytes")?,
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
