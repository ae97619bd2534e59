//! Encodes samples to streams and decodes them, one after another.
//!
//! In: a sample. Out: its differences to the previous one. The first sample after `reset` is
//! encoded in full, so that decoding can start there.

use super::delta::{HEAD_STREAMS, MaskTable, decode, encode};
use super::schema::{ColumnMap, TableSchema};
use super::stream::{Inputs, Streams};
use super::strings::{StringTable, StringWriter};
use super::table::{CELL_BYTES, ColumnTable};
use super::{Error, error::Malformed, tables, varint};
use monitor_model::{Instant, Sample};

/// Stream with the number of new strings.
const STRING_COUNT: usize = 0;
/// Stream with the new strings.
const STRINGS: usize = 1;

/// The first stream of each table, and the total number of streams.
fn stream_bases(widths: impl Iterator<Item = usize>) -> (Vec<usize>, usize) {
    let mut next = STRINGS + 1;
    let mut bases = Vec::new();
    for width in widths {
        bases.push(next);
        next += HEAD_STREAMS + width;
    }
    (bases, next)
}

/// Encodes samples.
pub struct Encoder {
    strings: StringWriter,
    before: Vec<ColumnTable>,
    now: Vec<ColumnTable>,
    masks: Vec<MaskTable>,
    bases: Vec<usize>,
    piece: Streams,
}

impl Default for Encoder {
    fn default() -> Self {
        let tables = tables::empty_tables();
        let (bases, count) = stream_bases(tables.iter().map(ColumnTable::width));
        Self {
            strings: StringWriter::default(),
            masks: vec![MaskTable::default(); tables.len()],
            before: tables.clone(),
            now: tables,
            bases,
            piece: Streams::new(count),
        }
    }
}

impl Encoder {
    /// Encodes the next sample in full.
    pub fn reset(&mut self) {
        self.strings = StringWriter::default();
        self.masks.iter_mut().for_each(|it| *it = MaskTable::default());
        self.before.iter_mut().for_each(ColumnTable::clear);
    }

    /// Empty streams of the right number.
    pub fn streams(&self) -> Streams {
        let mut streams = self.piece.clone();
        streams.clear();
        streams
    }

    /// Encodes a sample. A sample that is too large is skipped without effect on the next.
    pub fn encode(&mut self, sample: &Sample) -> Result<&Streams, Error> {
        let known_strings = self.strings.count();
        tables::write(sample, &mut self.strings, &mut self.now);
        let largest = self.now.iter().map(|it| it.memory_for(it.len())).max().unwrap_or(0);
        if largest > CELL_BYTES {
            return Err(Error::TooLarge { bytes: largest });
        }
        self.piece.clear();
        let new = self.strings.count() - known_strings;
        varint::put(&mut self.piece.part(STRING_COUNT..STRING_COUNT + 1)[0], new);
        self.piece.part(STRINGS..STRINGS + 1)[0] = self.strings.take_new();
        for (at, now) in self.now.iter().enumerate() {
            let base = self.bases[at];
            let part = self.piece.part(base..base + HEAD_STREAMS + now.width());
            encode(&self.before[at], now, &mut self.masks[at], part);
        }
        std::mem::swap(&mut self.before, &mut self.now);
        Ok(&self.piece)
    }
}

/// Decodes samples.
pub struct Decoder {
    map: ColumnMap,
    strings: StringTable,
    tables: Vec<ColumnTable>,
    scratch: Vec<ColumnTable>,
    masks: Vec<MaskTable>,
    bases: Vec<usize>,
    streams: usize,
}

impl Decoder {
    /// Decodes recordings with these tables; `None` if the schema exceeds the limits.
    pub fn new(shapes: &[TableSchema]) -> Option<Self> {
        let map = ColumnMap::new(shapes)?;
        let tables: Vec<_> = shapes.iter().map(|it| ColumnTable::new(it.columns.len())).collect();
        let (bases, streams) = stream_bases(tables.iter().map(ColumnTable::width));
        Some(Self {
            map,
            strings: StringTable::default(),
            scratch: tables.clone(),
            masks: vec![MaskTable::default(); tables.len()],
            tables,
            bases,
            streams,
        })
    }

    /// Number of streams in a payload.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// Expects the next sample in full.
    pub fn reset(&mut self) {
        self.strings = StringTable::default();
        self.masks.iter_mut().for_each(|it| *it = MaskTable::default());
        self.tables.iter_mut().for_each(ColumnTable::clear);
    }

    /// Applies the differences of the next sample.
    pub fn advance(&mut self, inputs: &mut Inputs) -> Result<(), Malformed> {
        let new = inputs.length(STRING_COUNT)?;
        self.strings.read(new, inputs, STRINGS)?;
        for (at, table) in self.tables.iter_mut().enumerate() {
            decode(table, &mut self.scratch[at], &mut self.masks[at], inputs, self.bases[at])?;
        }
        Ok(())
    }

    /// Time of the decoded sample.
    pub fn at(&self) -> Instant {
        tables::instant(&self.map, &self.tables)
    }

    /// The decoded sample.
    pub fn sample(&self) -> Sample {
        tables::sample(&self.map, &self.tables, &self.strings)
    }
}
