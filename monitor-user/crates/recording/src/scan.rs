//! Scans a recording for frames: if there is no valid block index.
//!
//! In: a file. Out: every frame with samples and an intact head, and where the last one ends. Reads
//! heads only, and searches for the next mark after a damaged one.

use super::frame::{self, FrameKind, HEAD_BYTES, MARK};
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

/// Scans a file from an offset on.
pub fn scan(file: &File, from: u64, length: u64) -> Result<ScanResult> {
    let mut found = ScanResult::default();
    let mut at = from;
    let mut whole = from;
    while at < length {
        let head = read_head(file, at, length)?;
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
            None => at = next_mark(file, at + 1, length)?,
        }
    }
    found.cut_at = (whole < length).then_some(whole);
    Ok(found)
}

fn read_head(file: &File, at: u64, length: u64) -> Result<Option<frame::FrameHead>> {
    if length - at < HEAD_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = [0; HEAD_BYTES];
    file.read_exact_at(&mut bytes, at)?;
    Ok(frame::parse_head(&bytes))
}

/// The position of the next mark from here on; else the end.
pub fn next_mark(file: &File, from: u64, length: u64) -> Result<u64> {
    let mut at = from;
    let mut chunk = vec![0; CHUNK];
    while at < length {
        let n = usize::try_from(length - at).unwrap_or(CHUNK).min(CHUNK);
        file.read_exact_at(&mut chunk[..n], at)?;
        if let Some(position) = chunk[..n].windows(MARK.len()).position(|it| it == MARK) {
            return Ok(at + position as u64);
        }
        // A mark may cross the border of two chunks.
        at += n.saturating_sub(MARK.len() - 1).max(1) as u64;
    }
    Ok(length)
}
