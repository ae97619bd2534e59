//! Blocks: the samples of about a minute, compressed together.
//!
//! In: the streams of consecutive samples. Out: a self-contained frame; and the streams back, never
//! more than [`RAW_BYTES`], whatever the frame claims.

use super::error::Malformed;
use super::frame::{self, FrameKind, SampleRange};
use super::stream::{Inputs, Streams};
use monitor_model::{Instant, Ns};
use std::io::Read;

/// Maximum bytes of a block before compression.
pub const RAW_BYTES: usize = frame::PAYLOAD_BYTES;
/// Maximum window for decompression, as a power of two.
const WINDOW_LOG: u32 = 24;
/// Compression level; higher levels gain little.
const LEVEL: i32 = 6;

/// When a block is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLimits {
    /// Minimum number of samples, unless `bytes` is exceeded.
    pub min_samples: u32,
    /// Maximum number of samples.
    pub max_samples: u32,
    /// Time from the first to the last sample after which a block with the minimum is full.
    pub span: Ns,
    /// Maximum bytes before compression.
    pub bytes: usize,
}

impl Default for BlockLimits {
    fn default() -> Self {
        // A damaged bit costs a block, so a minute of many samples is more than one.
        Self { min_samples: 60, max_samples: 60, span: Ns(59_500_000_000), bytes: 16 << 20 }
    }
}

/// A block in progress.
pub struct OpenBlock {
    limits: BlockLimits,
    streams: Streams,
    range: SampleRange,
}

impl OpenBlock {
    /// An empty block.
    pub fn new(limits: BlockLimits, streams: Streams) -> Self {
        Self { limits, streams, range: SampleRange::default() }
    }

    /// Whether it has no sample.
    pub const fn is_empty(&self) -> bool {
        self.range.count == 0
    }

    /// The samples in it.
    pub const fn range(&self) -> &SampleRange {
        &self.range
    }

    /// Appends a sample.
    pub fn push(&mut self, seq: u64, at: Instant, piece: &Streams) {
        if self.is_empty() {
            self.range = SampleRange { count: 0, ..SampleRange::one(seq, at) };
        }
        self.range.count += 1;
        self.range.last = at;
        self.streams.append(piece);
    }

    /// Whether the next sample must go to a new block.
    pub fn is_full(&self) -> bool {
        let SampleRange { count, first, last, .. } = self.range;
        let long =
            count >= self.limits.min_samples && last.boot.since(first.boot) >= self.limits.span;
        long || count >= self.limits.max_samples || self.streams.len() >= self.limits.bytes
    }

    /// Appends its frame to `out` and clears it.
    pub fn close(&mut self, out: &mut Vec<u8>) -> std::io::Result<()> {
        let mut raw = Vec::with_capacity(self.streams.len() + 1024);
        self.streams.write(&mut raw);
        let compressed = zstd::bulk::compress(&raw, LEVEL)?;
        frame::write(FrameKind::Block, &self.range, &compressed, out);
        self.clear();
        Ok(())
    }

    /// Removes all samples.
    pub fn clear(&mut self) {
        self.streams.clear();
        self.range = SampleRange::default();
    }
}

/// Decompresses the payload of a block into streams.
pub fn unpack(payload: &[u8], streams: usize) -> Result<Inputs, Malformed> {
    const BROKEN: Malformed = Malformed("a block with invalid compression");
    let mut decoder = zstd::stream::read::Decoder::new(payload).map_err(|_| BROKEN)?;
    decoder.window_log_max(WINDOW_LOG).map_err(|_| BROKEN)?;
    let mut raw = Vec::new();
    let limit = RAW_BYTES as u64 + 1;
    let read = decoder.take(limit).read_to_end(&mut raw).map_err(|_| BROKEN)?;
    if read as u64 == limit {
        return Err(Malformed("a block that exceeds the maximum size"));
    }
    Inputs::new(raw, streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant { unix: Ns(seconds), boot: Ns(seconds * 1_000_000_000) }
    }

    #[test]
    fn a_block_is_full_after_sixty_samples_or_too_many_bytes() {
        let mut open = OpenBlock::new(BlockLimits::default(), Streams::new(1));
        let nothing = Streams::new(1);
        for second in 0..59 {
            open.push(second, at(second), &nothing);
            assert!(!open.is_full(), "after {second} s");
        }
        open.push(59, at(59), &nothing);
        assert!(open.is_full());
        open.clear();
        let mut much = Streams::new(1);
        much.part(0..1)[0].resize(16 << 20, 0);
        open.push(61, at(61), &much);
        assert!(open.is_full());
    }

    #[test]
    fn a_decompression_bomb_is_refused_without_filling_memory() {
        let bomb = zstd::bulk::compress(&vec![0; RAW_BYTES + 1], 19).expect("compressed");
        assert!(bomb.len() < 16 << 10);
        let allocations = allocation_counter::measure(|| assert!(unpack(&bomb, 3).is_err()));
        // A growing vector holds its old and its new buffer for a moment.
        assert!(allocations.bytes_max < 4 * RAW_BYTES as u64, "{}", allocations.bytes_max);
    }
}
