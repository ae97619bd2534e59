//! Writes what a process writes, as it comes, on a thread.
//!
//! In: the end of a pipe. Out: the same bytes; with a prefix, line by line with the prefix before
//! each. The process waits while the reader of the output is slow, and nothing is lost.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::Sender;

/// Longest part of a line that is kept until it is written.
const LONGEST_LINE: u64 = 64 << 10;
/// Most bytes that are read at once: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// Begins; the sender is dropped when all is written, or the reader of the output has gone: then
/// the process gets SIGPIPE when it writes again.
pub(super) fn forward<W: Write + 'static>(
    from: Option<impl Read + Send + 'static>,
    prefix: Option<&str>,
    to: fn() -> W,
    writing: Sender<()>,
) {
    let Some(mut from) = from else { return };
    let prefix = prefix.map(str::to_owned);
    let _detached = std::thread::spawn(move || {
        let _ended = match prefix {
            Some(prefix) => forward_lines(BufReader::new(from), &prefix, to),
            None => forward_bytes(&mut from, to),
        };
        drop(writing);
    });
}

fn forward_bytes<W: Write>(from: &mut impl Read, to: fn() -> W) -> io::Result<()> {
    let mut part = vec![0; CHUNK];
    loop {
        match from.read(&mut part)? {
            0 => return Ok(()),
            n => to().write_all(&part[..n]).and_then(|()| to().flush())?,
        }
    }
}

fn forward_lines<W: Write>(mut from: impl BufRead, prefix: &str, to: fn() -> W) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(prefix.as_bytes());
        if from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        to().write_all(&line).and_then(|()| to().flush())?;
    }
}
