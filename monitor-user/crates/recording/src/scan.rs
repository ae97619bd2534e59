//! Finding the frames of a recording one by one: where there is no list of blocks, or none that
//! fits.
//!
//! In: a file. Out: every frame with samples whose head is whole, and how many bytes at the end
//! belong to none. Reads heads only, and looks for the next mark where there is no head.

use super::frame::{self, HEAD_BYTES, Kind, MARK};
use super::index::{self, Entry};
use std::fs::File;
use std::io::Result;
use std::os::unix::fs::FileExt;

/// Bytes that are searched at a time.
const CHUNK: usize = 64 << 10;

/// What a scan found.
#[derive(Debug, Default)]
pub struct Found {
    /// Frames with samples, as they stand.
    pub entries: Vec<Entry>,
    /// Where the last frame ends, if the file does not end there.
    pub cut_at: Option<u64>,
    /// The number after the last sample that a list of blocks tells of.
    pub told: u64,
}

/// Scans a file from an offset on.
pub fn scan(file: &File, from: u64, length: u64) -> Result<Found> {
    let mut found = Found::default();
    let mut at = from;
    let mut whole = from;
    while at < length {
        let head = head(file, at, length)?;
        let end = head.map(|head| at + (HEAD_BYTES + head.length) as u64);
        match head.zip(end.filter(|end| *end <= length)) {
            Some((head, end)) => {
                if matches!(head.kind, Kind::Block | Kind::Whole | Kind::Change) {
                    let stretch = head.stretch;
                    found.entries.push(Entry { offset: at, kind: head.kind, stretch });
                }
                if head.kind == Kind::Index {
                    found.told = found.told.max(index::told(file, at, length));
                }
                (at, whole) = (end, end);
            }
            None => at = next_mark(file, at + 1, length)?,
        }
    }
    found.cut_at = (whole < length).then_some(whole);
    Ok(found)
}

fn head(file: &File, at: u64, length: u64) -> Result<Option<frame::Head>> {
    if length - at < HEAD_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = [0; HEAD_BYTES];
    file.read_exact_at(&mut bytes, at)?;
    Ok(frame::head(&bytes))
}

/// The next place from here on that begins with a mark; the end, if there is none.
pub fn next_mark(file: &File, from: u64, length: u64) -> Result<u64> {
    let mut at = from;
    let mut chunk = vec![0; CHUNK];
    while at < length {
        let n = usize::try_from(length - at).unwrap_or(CHUNK).min(CHUNK);
        file.read_exact_at(&mut chunk[..n], at)?;
        if let Some(place) = chunk[..n].windows(MARK.len()).position(|it| it == MARK) {
            return Ok(at + place as u64);
        }
        // A mark may lie across the border of two chunks.
        at += n.saturating_sub(MARK.len() - 1).max(1) as u64;
    }
    Ok(length)
}
