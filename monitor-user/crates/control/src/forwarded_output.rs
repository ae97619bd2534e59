//! Writes what a process writes, as it comes, on a thread.
//!
//! In: the end of a pipe. Out: the same bytes, kept in a log and passed on; with a prefix, line by
//! line with the prefix before each. The process waits while the reader of the output is slow, and
//! nothing is lost.

use super::output_log::{OutputLog, OutputSource};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Longest part of a line that is kept until it is written.
const LONGEST_LINE: u64 = 64 << 10;
/// Most bytes that are read at once: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// Where the output of a process goes.
#[derive(Clone, Debug)]
pub struct OutputPlace {
    /// What is before each line on the standard output and error of this process.
    pub prefix: Option<String>,
    /// Whether it is written there.
    pub is_passed_on: bool,
    /// Where it is kept, and whose it is.
    pub log: Option<(Arc<OutputLog>, OutputSource)>,
}

impl OutputPlace {
    fn keep(&self, bytes: &[u8]) {
        if let Some((log, source)) = &self.log {
            log.append(source, bytes);
        }
    }

    /// That of the standard error.
    pub(super) fn of_errors(&self) -> Self {
        let mut place = self.clone();
        if let Some((_, source)) = &mut place.log {
            source.is_error = true;
        }
        place
    }
}

/// Begins; the sender is dropped when all is written, or the reader of the output has gone: then
/// the process gets SIGPIPE when it writes again.
pub(super) fn forward<W: Write + 'static>(
    from: Option<impl Read + Send + 'static>,
    place: OutputPlace,
    to: fn() -> W,
    writing: Sender<()>,
) {
    let Some(mut from) = from else { return };
    let _detached = std::thread::spawn(move || {
        let _ended = match &place.prefix {
            Some(prefix) => forward_lines(BufReader::new(from), prefix, &place, to),
            None => forward_bytes(&mut from, &place, to),
        };
        drop(writing);
    });
}

fn forward_bytes<W: Write>(
    from: &mut impl Read,
    place: &OutputPlace,
    to: fn() -> W,
) -> io::Result<()> {
    let mut part = vec![0; CHUNK];
    loop {
        let read = match from.read(&mut part)? {
            0 => return Ok(()),
            n => &part[..n],
        };
        if place.is_passed_on {
            to().write_all(read).and_then(|()| to().flush())?;
        }
        place.keep(read);
    }
}

fn forward_lines<W: Write>(
    mut from: impl BufRead,
    prefix: &str,
    place: &OutputPlace,
    to: fn() -> W,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(prefix.as_bytes());
        if from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let read = line.len();
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        if place.is_passed_on {
            to().write_all(&line).and_then(|()| to().flush())?;
        }
        place.keep(&line[prefix.len()..read]);
    }
}
