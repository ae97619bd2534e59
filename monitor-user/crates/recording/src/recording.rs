//! Reads a recording.
//!
//! In: a file. Out: its samples in order, from any position. Damaged samples are skipped, and a
//! note in the next sample says how many are missing.

use super::budget::{BLOCK_SAMPLES, FRAMES};
use super::frame::{FrameKind, PAYLOAD_BYTES, SampleRange};
use super::header::{COPIES, FilePrefix, HEADER_BYTES, PREAMBLE_BYTES, parse_prefix};
use super::index::{self, IndexEntry};
use super::scan::{self, MarkSearch, ScanResult};
use super::{Error, Header, VERSION, block::unpack, codec::Decoder, stream::Inputs};
use monitor_model::{Instant, Note, Ns, Sample};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Maximum scans of a file that becomes shorter meanwhile; a recorder ends a block once a minute.
const ATTEMPTS: usize = 100;

/// The time range of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Time of the first sample.
    pub first: Instant,
    /// Time of the last sample.
    pub last: Instant,
    /// Number of samples, without damaged ones as far as known.
    pub samples: u64,
}

/// An open recording.
pub struct Recording {
    path: PathBuf,
    file: File,
    header: Header,
    /// Frames in order of their samples; for the same samples, blocks first.
    entries: Vec<IndexEntry>,
    cut_at: Option<u64>,
    /// The number after the last sample of the block lists.
    listed_end: u64,
    decoder: Decoder,
    /// The next frame.
    next: usize,
    /// The current frame and the number of samples left in it.
    reading: Option<(Inputs, u32)>,
    /// The number of the decoded sample.
    decoded: Option<u64>,
    /// The number of the next sample, if nothing is missing.
    expected: u64,
    /// Samples skipped since the last returned one.
    missing: u64,
}

impl Recording {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::from_file(open_file(path)?, path)
    }

    /// Reads an open file; `path` is used in messages.
    pub fn from_file(file: File, path: &Path) -> Result<Self, Error> {
        let (header, samples_at) = read_header(&file, path, length_of(&file, path)?)?;
        let decoder = Decoder::new(&header.tables).ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: "its header has an invalid schema".into(),
        })?;
        let found = find_frames(&file, path, samples_at)?;
        let mut it = Self {
            path: path.to_owned(),
            file,
            header,
            listed_end: found.listed_end,
            cut_at: found.cut_at,
            entries: found.entries,
            decoder,
            next: 0,
            reading: None,
            decoded: None,
            expected: 0,
            missing: 0,
        };
        it.expected = it.header.first;
        it.entries.sort_by_key(|it| (it.range.seq, it.kind != FrameKind::Block));
        Ok(it)
    }

    /// The header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The time range; `None` without samples.
    pub fn span(&self) -> Option<Span> {
        let first = self.entries.first()?.range.first;
        let last = self.entries.iter().max_by_key(|it| it.range.end())?.range.last;
        let (mut samples, mut end) = (0, 0);
        for IndexEntry { range, .. } in &self.entries {
            samples += range.end().saturating_sub(end.max(range.seq));
            end = end.max(range.end());
        }
        Some(Span { first, last, samples })
    }

    /// Whether the last samples are not in a block: the file is being written, or was not finished.
    pub fn is_open(&self) -> bool {
        self.entries.last().is_none_or(|it| it.kind != FrameKind::Block)
    }

    /// Notes about missing samples at the end; call it after the last sample.
    pub fn end_notes(&self) -> Vec<Note> {
        let path = self.path.display();
        let end = self.entries.iter().map(|it| it.range.end());
        let end = end.chain([self.listed_end, self.expected]).max().unwrap_or(0);
        let damaged = end.saturating_sub(self.expected);
        let damaged = (damaged > 0)
            .then(|| Note::missing(format!("the last {damaged} samples are damaged in {path}")));
        let cut = self
            .cut_at
            .map(|at| Note::missing(format!("{path} is truncated or damaged from byte {at} on")));
        damaged.into_iter().chain(cut).collect()
    }

    /// The next sample. Its rates are not set.
    #[expect(clippy::should_implement_trait, reason = "it can fail and seek")]
    pub fn next(&mut self) -> Result<Option<Sample>, Error> {
        if !self.advance()? {
            return Ok(None);
        }
        let mut sample = self.decoder.sample();
        match std::mem::take(&mut self.missing) {
            0 => {}
            missing => sample.notes.push(Note::missing(format!(
                "{missing} samples before this one are damaged in {}",
                self.path.display()
            ))),
        }
        Ok(Some(sample))
    }

    /// Seeks to a time on the realtime clock: the next sample is the last one at or before it, else
    /// the first one.
    pub fn seek(&mut self, at: Ns) -> Result<(), Error> {
        let begins = |it: &IndexEntry| it.kind != FrameKind::Delta && it.range.first.unix <= at;
        let Some(entry_index) = self.entries.iter().rposition(begins) else {
            self.rewind(0);
            return Ok(());
        };
        self.rewind(entry_index);
        let mut before = 0_u64;
        while self.advance()? && self.decoder.at().unix <= at {
            before += 1;
        }
        self.rewind(entry_index);
        for _ in 1..before {
            let _there = self.advance()?;
        }
        self.missing = 0;
        Ok(())
    }

    fn rewind(&mut self, entry_index: usize) {
        self.next = entry_index;
        (self.reading, self.decoded, self.missing) = (None, None, 0);
        self.expected = match entry_index {
            0 => self.header.first,
            _ => self.entries.get(entry_index).map_or(0, |it| it.range.seq),
        };
    }

    /// Decodes the next readable sample. Returns whether there is one.
    fn advance(&mut self) -> Result<bool, Error> {
        loop {
            if let Some((inputs, left)) = &mut self.reading {
                *left -= 1;
                let whole = self.decoder.advance(inputs).is_ok();
                let is_last = *left == 0 || !whole;
                if is_last {
                    self.reading = None;
                }
                if whole {
                    self.decoded =
                        self.decoded.map_or(Some(self.expected), |decoded| Some(decoded + 1));
                    self.expected += 1;
                    return Ok(true);
                }
                self.decoded = None;
                continue;
            }
            let Some(entry) = self.entries.get(self.next).copied() else { return Ok(false) };
            self.next += 1;
            self.begin(&entry)?;
        }
    }

    /// Opens a frame, if it is intact and has samples not read yet.
    fn begin(&mut self, entry: &IndexEntry) -> Result<(), Error> {
        let range @ SampleRange { seq, count, .. } = entry.range;
        // Do not read a block again that turned out to be damaged halfway.
        if seq < self.expected || !(1..=BLOCK_SAMPLES).contains(&count) || range.end() == u64::MAX {
            return Ok(());
        }
        let follows = seq.checked_sub(1).is_some_and(|before| self.decoded == Some(before));
        if entry.kind == FrameKind::Delta && !follows {
            return Ok(());
        }
        let Some((inputs, payload_bytes)) = self.load(entry) else { return Ok(()) };
        if entry.kind != FrameKind::Delta {
            self.decoder.reset();
        }
        self.decoder.add_payload(payload_bytes);
        self.missing += seq - self.expected;
        self.expected = seq;
        self.decoded = seq.checked_sub(1);
        self.reading = Some((inputs, count));
        Ok(())
    }

    /// The streams of a frame, and the length of its payload.
    fn load(&self, entry: &IndexEntry) -> Option<(Inputs, usize)> {
        let (head, payload) = index::read_frame(&self.file, entry.offset, PAYLOAD_BYTES)?;
        let streams = self.decoder.streams();
        let inputs = match head.kind {
            FrameKind::Block => unpack(&payload, streams),
            _ => Inputs::new(payload, streams),
        };
        Some((inputs.ok()?, head.length))
    }
}

fn open_file(path: &Path) -> Result<File, Error> {
    // Without this flag, opening a pipe would block.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    file.map_err(|it| read_error(path, it))
}

/// The length of a regular file. Fails for pipes, which cannot seek.
fn length_of(file: &File, path: &Path) -> Result<u64, Error> {
    let metadata = file.metadata().map_err(|it| read_error(path, it))?;
    if !metadata.is_file() {
        let why = "it is not a regular file";
        return Err(Error::Foreign { path: path.to_owned(), why });
    }
    Ok(metadata.len())
}

/// Finds the frames. A recorder that ends a block replaces its frames by a shorter one, so the file
/// may shrink meanwhile: then it is scanned again.
fn find_frames(file: &File, path: &Path, samples_at: u64) -> Result<ScanResult, Error> {
    let mut attempts = ATTEMPTS;
    loop {
        let bytes = length_of(file, path)?;
        if let Some(entries) = index::load(file, bytes) {
            return Ok(ScanResult { entries, ..ScanResult::default() });
        }
        match scan::scan(file, samples_at, bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof && attempts > 0 => attempts -= 1,
            Ok(found) if found.entries.len() > FRAMES => {
                let what = format!("it has more than {FRAMES} blocks and samples");
                return Err(Error::Damaged { path: path.to_owned(), what });
            }
            found => return found.map_err(|it| read_error(path, it)),
        }
    }
}

fn read_error(path: &Path, source: std::io::Error) -> Error {
    Error::File { act: "read", path: path.to_owned(), source }
}

/// Reads the header, and returns where to scan for samples.
fn read_header(file: &File, path: &Path, length: u64) -> Result<(Header, u64), Error> {
    let path = || path.to_owned();
    let mut bytes = [0; PREAMBLE_BYTES];
    let known = match file.read_exact_at(&mut bytes, 0).map(|()| parse_prefix(&bytes)) {
        Ok(FilePrefix::Version(version)) if version > VERSION => {
            return Err(Error::Newer { path: path(), version, known: VERSION });
        }
        Ok(FilePrefix::Version(_)) => true,
        _ => false,
    };
    let mut at = PREAMBLE_BYTES as u64;
    for _ in 0..COPIES {
        let frame = index::read_frame(file, at, HEADER_BYTES);
        let frame = frame.filter(|(head, _)| head.kind == FrameKind::Header);
        let header = frame.and_then(|(_, payload)| Header::from_json(&payload));
        if let Some(header) = header {
            return Ok((header, at));
        }
        let end = length.min(HEADER_BYTES as u64);
        at = MarkSearch::new(file, end).next(at + 1).map_err(|it| read_error(&path(), it))?;
    }
    Err(match known {
        true => Error::Damaged { path: path(), what: "its header is truncated or damaged".into() },
        false => Error::Foreign { path: path(), why: "wrong magic number" },
    })
}
