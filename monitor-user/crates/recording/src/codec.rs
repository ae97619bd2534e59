//! Samples to streams and back, one after another.
//!
//! In: a sample. Out: what changed since the one before. The first after `begin` is told whole,
//! so that reading can begin there.

use super::change::{HEAD, Masks, decode, encode};
use super::error::{Error, Malformed};
use super::page;
use super::schema::{Lens, Shape};
use super::sheet::{CELL_BYTES, Sheet};
use super::stream::{Inputs, Streams};
use super::strings::{Known, Strings};
use super::varint;
use monitor_model::sample::{Instant, Sample};

/// How many strings are new.
const NEW: usize = 0;
/// The strings themselves.
const STRINGS: usize = 1;

/// Where the streams of each sheet begin, and how many there are in all.
fn bases(widths: impl Iterator<Item = usize>) -> (Vec<usize>, usize) {
    let mut next = STRINGS + 1;
    let mut bases = Vec::new();
    for width in widths {
        bases.push(next);
        next += HEAD + width;
    }
    (bases, next)
}

/// Writes samples.
pub struct Encoder {
    strings: Strings,
    before: Vec<Sheet>,
    now: Vec<Sheet>,
    masks: Vec<Masks>,
    bases: Vec<usize>,
    piece: Streams,
}

impl Default for Encoder {
    fn default() -> Self {
        let sheets = page::sheets();
        let (bases, count) = bases(sheets.iter().map(Sheet::width));
        Self {
            strings: Strings::default(),
            masks: vec![Masks::default(); sheets.len()],
            before: sheets.clone(),
            now: sheets,
            bases,
            piece: Streams::new(count),
        }
    }
}

impl Encoder {
    /// The next sample is told whole.
    pub fn begin(&mut self) {
        self.strings = Strings::default();
        self.masks.iter_mut().for_each(|it| *it = Masks::default());
        self.before.iter_mut().for_each(Sheet::clear);
    }

    /// Streams for what is written, all empty.
    pub fn streams(&self) -> Streams {
        let mut streams = self.piece.clone();
        streams.clear();
        streams
    }

    /// The streams of a sample. One that is refused is as if it had not been there.
    pub fn encode(&mut self, sample: &Sample) -> Result<&Streams, Error> {
        let told = self.strings.told();
        page::write(sample, &mut self.strings, &mut self.now);
        let largest = self.now.iter().map(|it| it.bytes_of(it.len())).max().unwrap_or(0);
        if largest > CELL_BYTES {
            return Err(Error::TooLarge { bytes: largest });
        }
        self.piece.clear();
        let new = self.strings.told() - told;
        varint::put(&mut self.piece.part(NEW..NEW + 1)[0], new);
        self.piece.part(STRINGS..STRINGS + 1)[0] = self.strings.take_new();
        for (at, now) in self.now.iter().enumerate() {
            let base = self.bases[at];
            let part = self.piece.part(base..base + HEAD + now.width());
            encode(&self.before[at], now, &mut self.masks[at], part);
        }
        std::mem::swap(&mut self.before, &mut self.now);
        Ok(&self.piece)
    }
}

/// Reads samples.
pub struct Decoder {
    lens: Lens,
    strings: Known,
    sheets: Vec<Sheet>,
    scratch: Vec<Sheet>,
    masks: Vec<Masks>,
    bases: Vec<usize>,
    streams: usize,
}

impl Decoder {
    /// Of a recording with these sheets; nothing, if they cannot be sheets.
    pub fn new(shapes: &[Shape]) -> Option<Self> {
        let lens = Lens::new(shapes)?;
        let sheets: Vec<_> = shapes.iter().map(|it| Sheet::new(it.columns.len())).collect();
        let (bases, streams) = bases(sheets.iter().map(Sheet::width));
        Some(Self {
            lens,
            strings: Known::default(),
            scratch: sheets.clone(),
            masks: vec![Masks::default(); sheets.len()],
            sheets,
            bases,
            streams,
        })
    }

    /// How many streams a payload has.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// The next sample is one that is told whole.
    pub fn begin(&mut self) {
        self.strings = Known::default();
        self.masks.iter_mut().for_each(|it| *it = Masks::default());
        self.sheets.iter_mut().for_each(Sheet::clear);
    }

    /// Takes in what changed with the next sample.
    pub fn advance(&mut self, inputs: &mut Inputs) -> Result<(), Malformed> {
        let new = inputs.length(NEW)?;
        self.strings.read(new, inputs, STRINGS)?;
        for (at, sheet) in self.sheets.iter_mut().enumerate() {
            decode(sheet, &mut self.scratch[at], &mut self.masks[at], inputs, self.bases[at])?;
        }
        Ok(())
    }

    /// When the sample was taken.
    pub fn at(&self) -> Instant {
        page::instant(&self.lens, &self.sheets)
    }

    /// The sample.
    pub fn sample(&self) -> Sample {
        page::sample(&self.lens, &self.sheets, &self.strings)
    }
}
