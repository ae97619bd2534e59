//! Scans a recording for frames: if there is no valid block index.
//!
//! In: a file. Out: every frame with samples and an intact head, and where the last one ends. Reads
//! heads only, and searches for the next mark after a damaged one.

use super::budget::FRAMES;
use super::frame::{self, FrameHead, FrameKind, HEAD_BYTES, MARK};
use super::index::{self, IndexEntry};
use std::{fs::File, io::Result, os::unix::fs::FileExt};

/// Bytes searched at a time.
const CHUNK: usize = 64 << 10;

/// The result of a scan.
#[derive(Debug, Default)]
pub struct ScanResult {
    /// Frames with samples, in order of position.
    pub entries: Vec<IndexEntry>,
    /// End of the last frame, if the file is longer.
    pub cut_at: Option<u64>,
    /// The number after the last sample of the block lists.
    pub listed_end: u64,
}

/// Scans a file from an offset on; ends after one frame too many.
pub fn scan(file: &File, from: u64, length: u64) -> Result<ScanResult> {
    let mut found = ScanResult::default();
    let mut marks = MarkSearch::new(file, length);
    let mut at = from;
    let mut whole = from;
    while at < length && found.entries.len() <= FRAMES {
        let head = marks.head(at)?;
        let end = head.map(|head| at + (HEAD_BYTES + head.length) as u64);
        match head.zip(end.filter(|end| *end <= length)) {
            Some((head, end)) => {
                if matches!(head.kind, FrameKind::Block | FrameKind::Full | FrameKind::Delta) {
                    let range = head.range;
                    found.entries.push(IndexEntry { offset: at, kind: head.kind, range });
                }
                if head.kind == FrameKind::Index {
                    found.listed_end = found.listed_end.max(index::listed_end(file, at, length));
                }
                (at, whole) = (end, end);
            }
            None => at = marks.next(at + 1)?,
        }
    }
    found.cut_at = (whole < length).then_some(whole);
    Ok(found)
}

/// Searches a file for marks, and reads each byte once, however many marks there are.
pub struct MarkSearch<'a> {
    file: &'a File,
    length: u64,
    /// The bytes read last, and their position.
    chunk: Vec<u8>,
    start: u64,
}

impl<'a> MarkSearch<'a> {
    /// Searches the first `length` bytes of a file.
    pub const fn new(file: &'a File, length: u64) -> Self {
        Self { file, length, chunk: Vec::new(), start: 0 }
    }

    /// The position of the next mark from here on; else the end.
    pub fn next(&mut self, from: u64) -> Result<u64> {
        let mut at = from;
        while at < self.length {
            if self.bytes_from(at).is_none_or(|it| it.len() < MARK.len()) {
                let n = usize::try_from(self.length - at).unwrap_or(CHUNK).min(CHUNK);
                self.chunk.resize(n, 0);
                self.start = at;
                self.file.read_exact_at(&mut self.chunk, at)?;
            }
            let bytes = self.bytes_from(at).unwrap_or_default();
            if let Some(position) = bytes.windows(MARK.len()).position(|it| it == MARK) {
                return Ok(at + position as u64);
            }
            // A mark may cross the border of two chunks.
            at += bytes.len().saturating_sub(MARK.len() - 1).max(1) as u64;
        }
        Ok(self.length)
    }

    fn head(&self, at: u64) -> Result<Option<FrameHead>> {
        if self.length - at < HEAD_BYTES as u64 {
            return Ok(None);
        }
        if let Some(bytes) = self.bytes_from(at).and_then(|it| it.first_chunk::<HEAD_BYTES>()) {
            return Ok(frame::parse_head(bytes));
        }
        let mut bytes = [0; HEAD_BYTES];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(frame::parse_head(&bytes))
    }

    /// What is read of the bytes from a position on.
    fn bytes_from(&self, at: u64) -> Option<&[u8]> {
        self.chunk.get(usize::try_from(at.checked_sub(self.start)?).ok()?..)
    }
}
