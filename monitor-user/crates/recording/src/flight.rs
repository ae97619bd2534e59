//! A flight recorder: the last minutes, always there, in memory.
//!
//! In: samples. Out: a recording of the last of them, in parts, whenever somebody wants it. What
//! is older than was asked for goes, and so does the oldest where there is too much.

use super::block::{Limits, Open};
use super::codec::Encoder;
use super::error::Error;
use super::frame::Stretch;
use super::header::Header;
use super::writer::{Existing, create};
use monitor_model::id::Ns;
use monitor_model::sample::Sample;
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;

/// Most bytes that are kept, compressed.
const KEPT_BYTES: usize = 64 << 20;
/// Most bytes of a part.
const PART_BYTES: usize = 128 << 10;

/// A closed block.
struct Kept {
    stretch: Stretch,
    frame: Vec<u8>,
}

/// Where a recording that is handed out in parts goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// The number of the first sample of the next block.
    pub block: u64,
    /// How much of it was handed out.
    pub at: u64,
    /// The number after the last sample that belongs to it.
    pub until: u64,
}

/// The recorder.
pub struct Flight {
    keep: Ns,
    /// How long what is older stays, so that it does not go while it is handed out.
    grace: Ns,
    header: Header,
    encoder: Encoder,
    open: Open,
    blocks: VecDeque<Kept>,
    seq: u64,
}

impl Flight {
    /// That keeps so much time.
    pub fn new(keep: Ns, header: Header) -> Self {
        let encoder = Encoder::default();
        // Blocks go as a whole, so they must be shorter than what is kept.
        let whole = Limits::default();
        let limits = Limits { least: 1, span: Ns(whole.span.0.min(keep.0 / 4)), ..whole };
        let open = Open::new(limits, encoder.streams());
        let grace = limits.span;
        Self { keep, grace, header, encoder, open, blocks: VecDeque::new(), seq: 0 }
    }

    /// Takes in a sample.
    pub fn take(&mut self, sample: &Sample) -> Result<(), Error> {
        if self.open.is_empty() {
            self.encoder.begin();
        }
        let piece = self.encoder.encode(sample)?;
        self.open.push(self.seq, sample.at, piece);
        self.seq += 1;
        if self.open.is_full() {
            self.close();
        }
        let longest = Ns(self.keep.0.saturating_add(self.grace.0));
        let old = |it: &Kept| sample.at.boot.since(it.stretch.last.boot) > longest;
        while self.blocks.front().is_some_and(old) || self.bytes() > KEPT_BYTES {
            let _gone = self.blocks.pop_front();
        }
        Ok(())
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|it| it.frame.len()).sum()
    }

    fn close(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let (stretch, mut frame) = (*self.open.stretch(), Vec::new());
        if let Err(error) = self.open.close(&mut frame) {
            tracing::warn!("a block of the flight recorder is lost: {error}");
            self.open.clear();
            return;
        }
        self.blocks.push_back(Kept { stretch, frame });
    }

    /// Begins to hand out the last so much time; all, if nothing is said. The first part is the
    /// beginning of the file.
    pub fn begin(&mut self, last: Option<Ns>) -> (Vec<u8>, Option<Next>) {
        self.close();
        let newest = self.blocks.back().map_or(Ns(0), |it| it.stretch.last.boot);
        let wanted = last.map_or(self.keep, |it| it.min(self.keep));
        let from = Ns(newest.0.saturating_sub(wanted.0));
        let first = self.blocks.iter().find(|it| it.stretch.last.boot >= from);
        let next = first.map(|it| Next { block: it.stretch.seq, at: 0, until: self.seq });
        let started = first.map_or(0, |it| it.stretch.first.unix.0);
        let header = Header {
            first: next.map_or(0, |it| it.block),
            started_unix_ns: started,
            ..self.header.clone()
        };
        (header.bytes(), next)
    }

    /// The next part, and where it goes on. What has gone meanwhile is left out, and a reader is
    /// told so.
    pub fn part(&self, next: Next) -> (&[u8], Option<Next>) {
        let belongs = |it: &&Kept| it.stretch.seq >= next.block && it.stretch.seq < next.until;
        let mut blocks = self.blocks.iter().filter(belongs);
        let Some(block) = blocks.next() else { return (&[], None) };
        let same = block.stretch.seq == next.block;
        let at = if same { usize::try_from(next.at).unwrap_or(usize::MAX) } else { 0 };
        let rest = block.frame.get(at..).unwrap_or_default();
        if rest.len() > PART_BYTES {
            let at = (at + PART_BYTES) as u64;
            return (&rest[..PART_BYTES], Some(Next { block: block.stretch.seq, at, ..next }));
        }
        let after = blocks.next().map(|it| Next { block: it.stretch.seq, at: 0, ..next });
        (rest, after)
    }

    /// Writes the last so much time into a file: for whoever saves it by himself, as a rule that
    /// fires may.
    pub fn save(&mut self, path: &Path, last: Option<Ns>) -> Result<(), Error> {
        let refused = |source| Error::File { act: "write", path: path.to_owned(), source };
        let mut file = create(path, Existing::Keep)?;
        let (header, mut next) = self.begin(last);
        file.write_all(&header).map_err(refused)?;
        while let Some(at) = next {
            let (bytes, after) = self.part(at);
            file.write_all(bytes).map_err(refused)?;
            next = after;
        }
        Ok(())
    }
}
