//! Blocks: the samples of about a minute, compressed together.
//!
//! In: the streams of samples, one after another. Out: a frame that can be read alone; and its
//! streams back, never more bytes than [`RAW_BYTES`] whatever the frame says.

use super::error::Malformed;
use super::frame::{self, Kind, Stretch};
use super::stream::{Inputs, Streams};
use monitor_model::id::Ns;
use monitor_model::sample::Instant;
use std::io::Read;

/// Most bytes of a block before it is compressed.
pub const RAW_BYTES: usize = frame::PAYLOAD_BYTES;
/// 2 to this power is the most that is remembered in decompressing.
const WINDOW: u32 = 24;
/// How hard is compressed: beyond this little is gained for much.
const LEVEL: i32 = 6;

/// When a block is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fewest samples, unless its bytes are too many.
    pub least: u32,
    /// Most samples.
    pub most: u32,
    /// Time from its first sample to its last, when it has the fewest.
    pub span: Ns,
    /// Bytes before it is compressed.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { least: 60, most: 600, span: Ns(59_500_000_000), bytes: 16 << 20 }
    }
}

/// A block that is being filled.
pub struct Open {
    limits: Limits,
    streams: Streams,
    stretch: Stretch,
}

impl Open {
    /// Empty.
    pub fn new(limits: Limits, streams: Streams) -> Self {
        Self { limits, streams, stretch: Stretch::default() }
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(&self) -> bool {
        self.stretch.count == 0
    }

    /// What is in it.
    pub const fn stretch(&self) -> &Stretch {
        &self.stretch
    }

    /// Takes in a sample.
    pub fn push(&mut self, seq: u64, at: Instant, piece: &Streams) {
        if self.is_empty() {
            self.stretch = Stretch { count: 0, ..Stretch::one(seq, at) };
        }
        self.stretch.count += 1;
        self.stretch.last = at;
        self.streams.append(piece);
    }

    /// Whether the next sample shall begin another.
    pub fn is_full(&self) -> bool {
        let Stretch { count, first, last, .. } = self.stretch;
        let long = count >= self.limits.least && last.boot.since(first.boot) >= self.limits.span;
        long || count >= self.limits.most || self.streams.len() >= self.limits.bytes
    }

    /// Appends its frame, and empties it.
    pub fn close(&mut self, out: &mut Vec<u8>) -> std::io::Result<()> {
        let mut raw = Vec::with_capacity(self.streams.len() + 1024);
        self.streams.write(&mut raw);
        let packed = zstd::bulk::compress(&raw, LEVEL)?;
        frame::write(Kind::Block, &self.stretch, &packed, out);
        self.clear();
        Ok(())
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.streams.clear();
        self.stretch = Stretch::default();
    }
}

/// The streams of the payload of a block.
pub fn unpack(payload: &[u8], streams: usize) -> Result<Inputs, Malformed> {
    const BROKEN: Malformed = Malformed("a block that is not compressed as it should be");
    let mut decoder = zstd::stream::read::Decoder::new(payload).map_err(|_| BROKEN)?;
    decoder.window_log_max(WINDOW).map_err(|_| BROKEN)?;
    let mut raw = Vec::new();
    let most = RAW_BYTES as u64 + 1;
    let read = decoder.take(most).read_to_end(&mut raw).map_err(|_| BROKEN)?;
    if read as u64 == most {
        return Err(Malformed("a block that is longer than one may be"));
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
    fn a_block_is_full_after_a_minute_or_too_many_bytes() {
        let mut open = Open::new(Limits::default(), Streams::new(1));
        let nothing = Streams::new(1);
        for second in 0..60 {
            open.push(second, at(second), &nothing);
            assert!(!open.is_full(), "after {second} s");
        }
        open.push(60, at(60), &nothing);
        assert!(open.is_full());
        open.clear();
        let mut much = Streams::new(1);
        much.part(0..1)[0].resize(16 << 20, 0);
        open.push(61, at(61), &much);
        assert!(open.is_full());
    }

    #[test]
    fn what_would_fill_the_memory_is_refused_without_filling_it() {
        let bomb = zstd::bulk::compress(&vec![0; RAW_BYTES + 1], 19).expect("it compresses");
        assert!(bomb.len() < 16 << 10);
        let told = allocation_counter::measure(|| assert!(unpack(&bomb, 3).is_err()));
        // A vector that grows holds its old and its new room for a moment.
        assert!(told.bytes_max < 4 * RAW_BYTES as u64, "{}", told.bytes_max);
    }
}
