//! The flight recorder: the last minutes of samples, in memory.
//!
//! In: samples. Out: on request, a recording of the last of them, in parts. Samples older than the
//! configured time are dropped, and the oldest ones if they take too much memory.

use super::{
    BlockLimits, Error, Existing, Header,
    block::{OpenBlock, unpack},
    codec::{Decoder, Encoder},
    create,
    frame::{HEAD_BYTES, SampleRange},
};
use monitor_model::{Ns, Sample};
use std::{collections::VecDeque, io::Write, path::Path};

/// Maximum compressed bytes in memory.
const KEPT_BYTES: usize = 64 << 20;
/// Maximum bytes of a part.
const PART_BYTES: usize = 128 << 10;

/// Ends of blocks that are kept for the exports that began in them.
const MAX_CUTS: usize = 4;

/// A closed block.
struct ClosedBlock {
    range: SampleRange,
    frame: Vec<u8>,
}

/// Position of an export that is read in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightCursor {
    /// The number of the first sample of the next block.
    pub block: u64,
    /// Bytes of this block that were exported.
    pub at: u64,
    /// The number after the last sample of the export.
    pub until: u64,
}

/// The flight recorder.
pub struct FlightBuffer {
    keep: Ns,
    /// How long older blocks are kept, so that they do not vanish during an export.
    grace: Ns,
    header: Header,
    encoder: Encoder,
    open: OpenBlock,
    blocks: VecDeque<ClosedBlock>,
    /// The latest ends of blocks in which an export began.
    cuts: VecDeque<ClosedBlock>,
    seq: u64,
}

impl FlightBuffer {
    /// Keeps the samples of the last `keep`.
    pub fn new(keep: Ns, header: Header) -> Self {
        let encoder = Encoder::default();
        // Blocks are dropped as a whole, so they must be shorter than the kept time.
        let whole = BlockLimits::default();
        let limits =
            BlockLimits { min_samples: 1, span: Ns(whole.span.0.min(keep.0 / 4)), ..whole };
        let open = OpenBlock::new(limits, encoder.streams());
        let grace = limits.span;
        Self {
            keep,
            grace,
            header,
            encoder,
            open,
            blocks: VecDeque::new(),
            cuts: VecDeque::new(),
            seq: 0,
        }
    }

    /// Appends a sample.
    pub fn push(&mut self, sample: &Sample) -> Result<(), Error> {
        if self.open.is_empty() {
            self.encoder.reset();
        }
        let piece = self.encoder.encode(sample)?;
        self.open.push(self.seq, sample.at, piece);
        self.seq += 1;
        if self.open.is_full() {
            self.close();
        }
        let longest = Ns(self.keep.0.saturating_add(self.grace.0));
        let old = |it: &ClosedBlock| sample.at.boot.since(it.range.last.boot) > longest;
        while self.blocks.front().is_some_and(old) || self.bytes() > KEPT_BYTES {
            let _gone = self.blocks.pop_front();
        }
        Ok(())
    }

    /// Compressed bytes in memory.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|it| it.frame.len()).sum()
    }

    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let (range, mut frame) = (*self.open.range(), Vec::new());
        if let Err(error) = self.open.close(&mut frame) {
            tracing::warn!("flight recorder: a block was lost: {error}");
            self.open.clear();
            return;
        }
        self.blocks.push_back(ClosedBlock { range, frame });
    }

    /// Starts an export of the last `last`, or of everything. The first part is the beginning of
    /// the file.
    pub fn export(&mut self, last: Option<Ns>) -> (Vec<u8>, Option<FlightCursor>) {
        self.close();
        let newest = self.blocks.back().map_or(Ns(0), |it| it.range.last.boot);
        let wanted = last.map_or(self.keep, |it| it.min(self.keep));
        let from = Ns(newest.0.saturating_sub(wanted.0));
        let first = self.blocks.iter().find(|it| it.range.last.boot >= from);
        let whole = first.map(|it| it.range);
        let cut = first.and_then(|it| self.end_of(it, from));
        let first = cut.as_ref().map(|it| it.range).or(whole);
        if let Some(cut) = cut {
            self.cuts.retain(|it| it.range.seq != cut.range.seq);
            self.cuts.push_back(cut);
            let _oldest = (self.cuts.len() > MAX_CUTS).then(|| self.cuts.pop_front());
        }
        let next = first.map(|it| FlightCursor { block: it.seq, at: 0, until: self.seq });
        let started = first.map_or(0, |it| it.first.unix.0);
        let header = Header {
            first: next.map_or(0, |it| it.block),
            started_unix_ns: started,
            ..self.header.clone()
        };
        (header.bytes(), next)
    }

    /// The samples of a block from this time on, as a block of their own; none if that is all.
    fn end_of(&self, block: &ClosedBlock, from: Ns) -> Option<ClosedBlock> {
        if block.range.first.boot >= from {
            return None;
        }
        let mut decoder = Decoder::new(&self.header.tables)?;
        let payload = block.frame.get(HEAD_BYTES..)?;
        let mut inputs = unpack(payload, decoder.streams()).ok()?;
        decoder.add_payload(payload.len());
        let mut encoder = Encoder::default();
        let mut open = OpenBlock::new(BlockLimits::default(), encoder.streams());
        for seq in block.range.seq..block.range.end() {
            decoder.advance(&mut inputs).ok()?;
            if decoder.at().boot >= from {
                open.push(seq, decoder.at(), encoder.encode(&decoder.sample()).ok()?);
            }
        }
        let (range, mut frame) = (*open.range(), Vec::new());
        open.close(&mut frame).ok()?;
        Some(ClosedBlock { range, frame })
    }

    /// The next part, and the position after it. Blocks dropped meanwhile are skipped; the reader
    /// of the file reports them as missing.
    pub fn export_part(&self, next: FlightCursor) -> (&[u8], Option<FlightCursor>) {
        let cut = self.cuts.iter().find(|it| it.range.seq == next.block);
        let from = cut.map_or(next.block, |it| it.range.end());
        let belongs = |it: &&ClosedBlock| it.range.seq >= from && it.range.seq < next.until;
        let mut blocks = cut.into_iter().chain(self.blocks.iter().filter(belongs));
        let Some(block) = blocks.next() else { return (&[], None) };
        let same = block.range.seq == next.block;
        let at = if same { usize::try_from(next.at).unwrap_or(usize::MAX) } else { 0 };
        let rest = block.frame.get(at..).unwrap_or_default();
        if rest.len() > PART_BYTES {
            let at = (at + PART_BYTES) as u64;
            return (
                &rest[..PART_BYTES],
                Some(FlightCursor { block: block.range.seq, at, ..next }),
            );
        }
        let after = blocks.next().map(|it| FlightCursor { block: it.range.seq, at: 0, ..next });
        (rest, after)
    }

    /// Writes the last `last` to a new file; used by rules that save the flight recorder.
    pub fn save(&mut self, path: &Path, last: Option<Ns>) -> Result<(), Error> {
        let refused = |source| Error::File { act: "write", path: path.to_owned(), source };
        let mut file = create(path, Existing::Keep)?;
        let (header, mut next) = self.export(last);
        file.write_all(&header).map_err(refused)?;
        while let Some(at) = next {
            let (bytes, after) = self.export_part(at);
            file.write_all(bytes).map_err(refused)?;
            next = after;
        }
        Ok(())
    }
}
