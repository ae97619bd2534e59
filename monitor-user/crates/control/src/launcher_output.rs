//! What a launcher writes, kept in a log, and how far that is, in a file.
//!
//! In: the end of a pipe, and the form in which the launcher labels lines of ranks, if it does.
//! Out: parts in the log, of a rank where a line has a label, otherwise of the launcher. A label is
//! not kept. The launcher waits while the log is full and a reader has not had the oldest part.

use super::output_log::{OutputLog, OutputSource};
use monitor_jobs::rank_label::RankLabel;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Longest part of a line that is kept at once.
const LONGEST_LINE: u64 = 64 << 10;
/// Most bytes that are read at once: what a pipe holds.
const CHUNK: usize = 64 << 10;

/// The number of bytes that a log has had, in a file: a process that goes on in the place of one
/// that was killed begins there.
#[derive(Debug)]
pub struct KeptPosition {
    file: Mutex<File>,
}

impl KeptPosition {
    /// Opens the file, and returns what is in it: 0 if it is new.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<(Self, u64)> {
        let file =
            File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = [0; size_of::<u64>()];
        let at =
            if file.read_at(&mut bytes, 0)? == bytes.len() { u64::from_le_bytes(bytes) } else { 0 };
        Ok((Self { file: Mutex::new(file) }, at))
    }

    fn note(&self, log: &OutputLog) {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Without it, a process that goes on counts less than was lost.
        let _kept = file.write_at(&log.added().0.to_le_bytes(), 0);
    }
}

/// Where a stream of a launcher is kept.
#[derive(Clone, Debug)]
pub struct KeptStream {
    /// The log.
    pub log: Arc<OutputLog>,
    /// Its source, for what has no label.
    pub source: OutputSource,
    /// How lines of ranks are labelled.
    pub label: Option<RankLabel>,
    /// Where the log is.
    pub position: Arc<KeptPosition>,
}

impl KeptStream {
    /// Reads the stream to its end.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn keep(&self, from: impl Read) -> io::Result<()> {
        match self.label {
            Some(label) => self.keep_lines(from, label),
            None => self.keep_bytes(from),
        }
    }

    fn append(&self, source: &OutputSource, bytes: &[u8]) {
        self.log.append(source, bytes);
        self.position.note(&self.log);
    }

    fn keep_bytes(&self, mut from: impl Read) -> io::Result<()> {
        let mut part = vec![0; CHUNK];
        loop {
            match from.read(&mut part)? {
                0 => return Ok(()),
                n => self.append(&self.source, &part[..n]),
            }
        }
    }

    fn keep_lines(&self, from: impl Read, label: RankLabel) -> io::Result<()> {
        let mut from = BufReader::with_capacity(CHUNK, from);
        let mut line = Vec::new();
        // Of the line before, if that was longer than what is read at once.
        let mut unfinished = None;
        loop {
            line.clear();
            if from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let (rank, text) = match unfinished {
                Some(rank) => (rank, line.as_slice()),
                None => match label.split(&line) {
                    Some((rank, rest)) => (Some(rank), rest),
                    None => (None, line.as_slice()),
                },
            };
            self.append(&OutputSource { rank, ..self.source.clone() }, text);
            unfinished = (line.last() != Some(&b'\n')).then_some(rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output_log::OutputWait;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn stream(name: &str, label: Option<RankLabel>) -> KeptStream {
        // Tests run beside each other in one process.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("{name}.{pid}.{number}"));
        let (position, at) = KeptPosition::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let source = OutputSource { group: "launch-7".into(), rank: None, is_error: false };
        let log = OutputLog::continued(1 << 20, at);
        KeptStream { log, source, label, position: Arc::new(position) }
    }

    #[track_caller]
    fn check(label: Option<RankLabel>, text: &str, want: &[(Option<u32>, &str)]) {
        let kept = stream("launcher-output", label);
        kept.keep(text.as_bytes()).unwrap();
        let reader = kept.log.reader_from(0);
        let parts = std::iter::from_fn(|| reader.next_part(OutputWait::No));
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let got: Vec<_> = parts.map(|it| (it.source.rank, text(&it.bytes))).collect();
        let got: Vec<_> = got.iter().map(|(rank, text)| (*rank, text.as_str())).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn a_line_with_a_label_is_of_its_rank_and_others_are_of_the_launcher() {
        let text = "[1,0]<stdout>:a\nmpirun: note\n[1,1]<stdout>:b";
        let want = [(Some(0), "a\n"), (None, "mpirun: note\n"), (Some(1), "b")];
        check(Some(RankLabel::OpenMpi), text, &want);
        check(None, text, &[(None, text)]);
    }

    #[test]
    fn a_long_line_is_of_one_rank() {
        let long = "x".repeat(100_000);
        let text = format!("[3] {long}\n[4] b\n");
        let first = usize::try_from(LONGEST_LINE).unwrap() - "[3] ".len();
        let rest = format!("{}\n", &long[first..]);
        let want = [(Some(3), &long[..first]), (Some(3), &rest), (Some(4), "b\n")];
        check(Some(RankLabel::Hydra), &text, &want);
    }

    #[test]
    fn a_process_goes_on_where_another_one_was() {
        let path = std::env::temp_dir().join(format!("kept-position.{}", std::process::id()));
        let (position, at) = KeptPosition::open(&path).unwrap();
        assert_eq!(at, 0);
        position.note(&OutputLog::continued(100, 77));
        assert_eq!(KeptPosition::open(&path).unwrap().1, 77);
        std::fs::remove_file(&path).unwrap();
    }
}
