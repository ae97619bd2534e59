//! The block index: after each block, a list of the last blocks and the position of the previous
//! list.
//!
//! In: blocks as they are written. Out: frames; and, from the end of a file, the positions of all
//! blocks without reading them. If a list does not match the file, the file is scanned instead.

use super::budget::{BLOCK_SAMPLES, FRAMES};
use super::frame::{self, FrameHead, FrameKind, HEAD_BYTES, SampleRange, read_u64};
use std::{fs::File, os::unix::fs::FileExt};

/// Maximum blocks per list: about an hour, so a year has nine thousand lists.
const LIST_ENTRIES: usize = 64;
/// The end of a file whose last frame is a list.
const END: &[u8; 8] = b"MRindex\n";
/// Length of the trailer: the length of the frame, and [`END`].
const TRAILER_BYTES: usize = 12;
/// Length of an entry: offset and sample range.
const ENTRY_BYTES: usize = 52;
/// Length of the position of the previous list and the trailer.
const FIXED_BYTES: usize = 8 + TRAILER_BYTES;
/// Maximum length of the payload of a list.
const LIST_BYTES: usize = FIXED_BYTES + LIST_ENTRIES * ENTRY_BYTES;
/// The position that means no previous list.
const NO_LIST: u64 = 0;

/// A frame with samples and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Position in the file.
    pub offset: u64,
    /// A block, or one sample.
    pub kind: FrameKind,
    /// The samples.
    pub range: SampleRange,
}

/// The lists of a file in progress.
#[derive(Debug, Default)]
pub struct BlockIndex {
    previous: u64,
    entries: Vec<IndexEntry>,
    /// Number of blocks in all lists.
    blocks: usize,
}

impl BlockIndex {
    /// Length of the list with one more block.
    pub const fn next_bytes(&self) -> u64 {
        (HEAD_BYTES + FIXED_BYTES + (self.entries.len() + 1) * ENTRY_BYTES) as u64
    }

    /// Whether a reader would refuse many more blocks.
    pub const fn is_full(&self) -> bool {
        self.blocks + 2 * BLOCK_SAMPLES as usize >= FRAMES
    }

    /// Appends the list with one more block, for the position `list_at`.
    pub fn write(&mut self, block: IndexEntry, list_at: u64, out: &mut Vec<u8>) {
        self.entries.push(block);
        self.blocks += 1;
        let mut payload = self.previous.to_le_bytes().to_vec();
        for entry in &self.entries {
            payload.extend_from_slice(&entry.offset.to_le_bytes());
            payload.extend_from_slice(&entry.range.bytes());
        }
        let length = HEAD_BYTES + payload.len() + TRAILER_BYTES;
        let length = u32::try_from(length).expect("a list has at most 64 entries");
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(END);
        frame::write(FrameKind::Index, &SampleRange::default(), &payload, out);
        if self.entries.len() == LIST_ENTRIES {
            self.entries.clear();
            self.previous = list_at;
        }
    }
}

/// All blocks of a file that ends with a list; `None` if the lists do not match the file.
pub fn load(file: &File, length: u64) -> Option<Vec<IndexEntry>> {
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, length.checked_sub(TRAILER_BYTES as u64)?).ok()?;
    let list = u64::from(u32::from_le_bytes(*trailer.first_chunk()?));
    let mut at = (trailer[4..] == *END).then(|| length.checked_sub(list))??;
    let mut lists = Vec::new();
    let mut later = length;
    let mut count = 0;
    loop {
        let (previous, entries) = read_list(file, at, later)?;
        count += entries.len();
        // Every list but the last written one is full, so their number is bounded by the file.
        if count > FRAMES || !lists.is_empty() && entries.len() != LIST_ENTRIES {
            return None;
        }
        lists.push(entries);
        if previous == NO_LIST {
            break;
        }
        (later, at) = (at, previous);
    }
    let entries: Vec<_> = lists.into_iter().rev().flatten().collect();
    let in_order = entries.is_sorted_by(|a, b| a.offset < b.offset && a.range.end() <= b.range.seq);
    (in_order && entries.iter().all(|entry| is_there(file, entry))).then_some(entries)
}

/// The number after the last sample of a list.
pub fn listed_end(file: &File, at: u64, length: u64) -> u64 {
    let entries = read_list(file, at, length).map(|(_, entries)| entries).unwrap_or_default();
    entries.last().map_or(0, |entry| entry.range.end())
}

/// Reads a list, which must begin before `before`.
fn read_list(file: &File, at: u64, before: u64) -> Option<(u64, Vec<IndexEntry>)> {
    let (head, payload) = (at < before).then(|| read_frame(file, at, LIST_BYTES))??;
    let entries = payload.len().checked_sub(FIXED_BYTES)?;
    if head.kind != FrameKind::Index || !entries.is_multiple_of(ENTRY_BYTES) {
        return None;
    }
    let entry = |bytes: &[u8]| {
        let (offset, range) = bytes.split_at_checked(8)?;
        let range = SampleRange::from_bytes(range.try_into().ok()?);
        Some(IndexEntry { offset: read_u64(offset), kind: FrameKind::Block, range })
    };
    let entries: Option<Vec<_>> = payload[8..8 + entries].chunks(ENTRY_BYTES).map(entry).collect();
    Some((read_u64(&payload), entries?))
}

/// Whether the head of a block is at its listed position.
fn is_there(file: &File, entry: &IndexEntry) -> bool {
    let mut bytes = [0; HEAD_BYTES];
    let read = file.read_exact_at(&mut bytes, entry.offset);
    let head = read.ok().and_then(|()| frame::parse_head(&bytes));
    head.is_some_and(|head| head.kind == entry.kind && head.range == entry.range)
}

/// Reads the frame at a position; `None` if it is incomplete, damaged, or its payload is longer
/// than `max_bytes`.
pub fn read_frame(file: &File, at: u64, max_bytes: usize) -> Option<(FrameHead, Vec<u8>)> {
    let mut bytes = [0; HEAD_BYTES];
    file.read_exact_at(&mut bytes, at).ok()?;
    let head = frame::parse_head(&bytes).filter(|head| head.length <= max_bytes)?;
    let start = at.checked_add(HEAD_BYTES as u64)?;
    // Do not trust a length beyond the end of the file.
    let end = start.checked_add(head.length as u64)?;
    if file.metadata().ok()?.len() < end {
        return None;
    }
    let mut payload = vec![0; head.length];
    file.read_exact_at(&mut payload, start).ok()?;
    (crc32c::crc32c(&payload) == head.checksum).then_some((head, payload))
}
