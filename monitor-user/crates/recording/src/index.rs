//! Where the blocks of a recording are: after each block a list of the last of them, and where the
//! list before that is.
//!
//! In: blocks as they are written. Out: frames; and, from the end of a file, all blocks without
//! reading what lies between. A list that does not fit the file is no list: then the file is
//! scanned.

use super::frame::{self, HEAD_BYTES, Head, Kind, Stretch, long};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Most blocks in a list: with an hour of them, a year is four thousand steps.
const CHAPTER: usize = 64;
/// How the file ends, if its last frame is a list.
const END: &[u8; 8] = b"MRindex\n";
/// The length of the frame, and [`END`].
const TRAILER_BYTES: usize = 12;
/// Offset and stretch.
const ENTRY_BYTES: usize = 52;
/// Where the list before is, and the trailer.
const FIXED_BYTES: usize = 8 + TRAILER_BYTES;
/// Where no list is before.
const NOWHERE: u64 = 0;

/// A frame with samples, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it begins.
    pub offset: u64,
    /// A block, or one sample.
    pub kind: Kind,
    /// Which samples.
    pub stretch: Stretch,
}

/// The lists of a file that is written.
#[derive(Debug, Default)]
pub struct Chapters {
    previous: u64,
    entries: Vec<Entry>,
}

impl Chapters {
    /// Bytes that the list takes with one block more.
    pub const fn next_bytes(&self) -> u64 {
        (HEAD_BYTES + FIXED_BYTES + (self.entries.len() + 1) * ENTRY_BYTES) as u64
    }

    /// Appends the list with one block more, at this place.
    pub fn write(&mut self, block: Entry, list_at: u64, out: &mut Vec<u8>) {
        self.entries.push(block);
        let mut payload = self.previous.to_le_bytes().to_vec();
        for entry in &self.entries {
            payload.extend_from_slice(&entry.offset.to_le_bytes());
            payload.extend_from_slice(&entry.stretch.bytes());
        }
        let length = HEAD_BYTES + payload.len() + TRAILER_BYTES;
        let length = u32::try_from(length).expect("a list has at most 64 entries");
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(END);
        frame::write(Kind::Index, &Stretch::default(), &payload, out);
        if self.entries.len() == CHAPTER {
            self.entries.clear();
            self.previous = list_at;
        }
    }
}

/// All blocks of a file that ends with a list.
pub fn load(file: &File, length: u64) -> Option<Vec<Entry>> {
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, length.checked_sub(TRAILER_BYTES as u64)?).ok()?;
    let list = u64::from(u32::from_le_bytes(*trailer.first_chunk()?));
    let mut at = (trailer[4..] == *END).then(|| length.checked_sub(list))??;
    let mut chapters = Vec::new();
    let mut later = length;
    loop {
        let (previous, entries) = chapter(file, at, later)?;
        chapters.push(entries);
        if previous == NOWHERE {
            break;
        }
        (later, at) = (at, previous);
    }
    let entries: Vec<_> = chapters.into_iter().rev().flatten().collect();
    let in_order =
        entries.is_sorted_by(|a, b| a.offset < b.offset && a.stretch.end() <= b.stretch.seq);
    (in_order && entries.iter().all(|entry| is_there(file, entry))).then_some(entries)
}

/// The number after the last sample that a list tells of.
pub fn told(file: &File, at: u64, length: u64) -> u64 {
    let entries = chapter(file, at, length).map(|(_, entries)| entries).unwrap_or_default();
    entries.last().map_or(0, |entry| entry.stretch.end())
}

/// A list, which must begin before something.
fn chapter(file: &File, at: u64, before: u64) -> Option<(u64, Vec<Entry>)> {
    let (head, payload) = (at < before).then(|| read(file, at))??;
    let entries = payload.len().checked_sub(FIXED_BYTES)?;
    if head.kind != Kind::Index || !entries.is_multiple_of(ENTRY_BYTES) {
        return None;
    }
    let entry = |bytes: &[u8]| {
        let (offset, stretch) = bytes.split_at_checked(8)?;
        let stretch = Stretch::from_bytes(stretch.try_into().ok()?);
        Some(Entry { offset: long(offset), kind: Kind::Block, stretch })
    };
    let entries: Option<Vec<_>> = payload[8..8 + entries].chunks(ENTRY_BYTES).map(entry).collect();
    Some((long(&payload), entries?))
}

/// Whether the head of a block is where the list says.
fn is_there(file: &File, entry: &Entry) -> bool {
    let mut bytes = [0; HEAD_BYTES];
    let read = file.read_exact_at(&mut bytes, entry.offset);
    let head = read.ok().and_then(|()| frame::head(&bytes));
    head.is_some_and(|head| head.kind == entry.kind && head.stretch == entry.stretch)
}

/// The frame that begins there, if it is whole and its checksums are right.
pub fn read(file: &File, at: u64) -> Option<(Head, Vec<u8>)> {
    let mut bytes = [0; HEAD_BYTES];
    file.read_exact_at(&mut bytes, at).ok()?;
    let head = frame::head(&bytes)?;
    let start = at.checked_add(HEAD_BYTES as u64)?;
    // A length is believed only as far as the file reaches.
    let end = start.checked_add(head.length as u64)?;
    if file.metadata().ok()?.len() < end {
        return None;
    }
    let mut payload = vec![0; head.length];
    file.read_exact_at(&mut payload, start).ok()?;
    (crc32c::crc32c(&payload) == head.checksum).then_some((head, payload))
}
