//! Encodes samples to streams and decodes them, one after another.
//!
//! In: a sample. Out: its differences to the previous one. The first sample after `reset` is
//! encoded in full, so that decoding can start there.

use super::budget::{Budget, TABLE_BYTES};
use super::delta::{HEAD_STREAMS, MaskTable, TableInput, decode, encode};
use super::schema::{ColumnMap, TableSchema};
use super::stream::{Inputs, Streams};
use super::strings::{StringTable, StringWriter};
use super::table::ColumnTable;
use super::tables::{self, TableView};
use super::{Error, error::Malformed, varint};
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
        let bytes = self.now.iter().map(ColumnTable::memory).sum();
        if bytes > TABLE_BYTES {
            return Err(Error::TooLarge { bytes });
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
    tables: Vec<DecodedTable>,
    /// The table before a change, to reuse its memory.
    scratch: ColumnTable,
    streams: usize,
    budget: Budget,
}

/// A table of a recording.
struct DecodedTable {
    rows: ColumnTable,
    masks: MaskTable,
    base: usize,
    /// Whether it is a table of the current schema; others are not decoded.
    is_known: bool,
}

impl Decoder {
    /// Decodes recordings with these tables; `None` if the schema exceeds the limits.
    pub fn new(shapes: &[TableSchema]) -> Option<Self> {
        let map = ColumnMap::new(shapes)?;
        let (bases, streams) = stream_bases(shapes.iter().map(|it| it.columns.len()));
        let table = |((at, shape), base): ((usize, &TableSchema), usize)| DecodedTable {
            rows: ColumnTable::new(shape.columns.len()),
            masks: MaskTable::default(),
            base,
            is_known: map.is_known(at),
        };
        let tables = shapes.iter().enumerate().zip(bases).map(table).collect();
        let strings = StringTable::default();
        let (scratch, budget) = (ColumnTable::default(), Budget::default());
        Some(Self { map, strings, tables, scratch, streams, budget })
    }

    /// Number of streams in a payload.
    pub const fn streams(&self) -> usize {
        self.streams
    }

    /// Expects the next sample in full.
    pub fn reset(&mut self) {
        self.strings = StringTable::default();
        self.budget = Budget::default();
        for table in &mut self.tables {
            table.masks = MaskTable::default();
            table.rows.clear();
        }
    }

    /// Allows for the samples of a frame with a payload of this length.
    pub fn add_payload(&mut self, bytes: usize) {
        self.budget.add_payload(bytes);
    }

    /// Applies the differences of the next sample.
    pub fn advance(&mut self, inputs: &mut Inputs) -> Result<(), Malformed> {
        let new = inputs.length(STRING_COUNT)?;
        self.strings.read(new, inputs, STRINGS, &mut self.budget)?;
        let max_bytes = self.budget.table_bytes();
        let mut used = self.memory();
        for table in self.tables.iter_mut().filter(|it| it.is_known) {
            let others = used - table.rows.memory();
            let max_bytes = max_bytes.saturating_sub(others);
            let input = TableInput { inputs, base: table.base, max_bytes };
            self.scratch.reset(table.rows.width());
            decode(&mut table.rows, &mut self.scratch, &mut table.masks, input)?;
            used = others + table.rows.memory();
        }
        self.budget.take_sample(self.memory())
    }

    fn memory(&self) -> usize {
        self.tables.iter().map(|it| it.rows.memory()).sum()
    }

    /// Time of the decoded sample.
    pub fn at(&self) -> Instant {
        self.view().instant()
    }

    /// The decoded sample.
    pub fn sample(&self) -> Sample {
        self.view().sample()
    }

    fn view(&self) -> TableView<'_> {
        let tables = self.tables.iter().map(|it| &it.rows).collect();
        TableView::new(&self.map, tables, &self.strings, self.budget.text_bytes())
    }
}
