//! What a frame may expand to.
//!
//! In: the bytes of its payload. Out: limits for what is decoded from it: memory of tables, memory
//! of strings, texts of a sample, and work. Compressed data of a few kilobytes can claim millions
//! of rows and strings; each limit is a minimum that every frame has, and a multiple of its payload
//! beyond what samples of this program reach.

use super::error::Malformed;

/// Limits per payload: a minimum, and a factor.
struct Limit {
    least: u64,
    per_byte: u64,
}

/// Tables of one sample. A process takes 840 bytes, and at least four in a block.
const TABLES: Limit = Limit { least: 24 << 20, per_byte: 256 };
/// Strings of a block.
const STRINGS: Limit = Limit { least: 24 << 20, per_byte: 128 };
/// Texts of one sample, each counted in every row that has it.
const TEXTS: Limit = Limit { least: 32 << 20, per_byte: 128 };
/// Tables of all samples of a block: 24 MiB in each of 170.
const WORK: Limit = Limit { least: 4 << 30, per_byte: 4096 };

/// Maximum memory for the tables of a sample, in bytes: enough for 250,000 processes.
pub const TABLE_BYTES: usize = 256 << 20;
/// Maximum samples of a block.
pub const BLOCK_SAMPLES: u32 = 600;
/// Maximum frames with samples in a file; a writer ends the file before.
pub const FRAMES: usize = 1 << 20;
/// Work of a sample without rows.
const SAMPLE_WORK: u64 = 4096;

/// What is left for the samples since the last full one.
#[derive(Debug, Default)]
pub struct Budget {
    payload: u64,
    strings: u64,
    work: u64,
}

impl Budget {
    /// The budget of a full sample or a block.
    pub fn add_payload(&mut self, bytes: usize) {
        self.payload = self.payload.saturating_add(bytes as u64);
    }

    /// Memory for the tables of a sample.
    pub fn table_bytes(&self) -> usize {
        usize::try_from(TABLES.for_payload(self.payload))
            .map_or(TABLE_BYTES, |it| it.min(TABLE_BYTES))
    }

    /// Bytes of text in a sample.
    pub fn text_bytes(&self) -> u64 {
        TEXTS.for_payload(self.payload)
    }

    /// Counts a string.
    pub fn take_string(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.strings = self.strings.saturating_add(bytes as u64);
        match self.strings <= STRINGS.for_payload(self.payload) {
            true => Ok(()),
            false => Err(Malformed("more strings than the maximum")),
        }
    }

    /// Counts a sample whose tables take this much memory.
    pub fn take_sample(&mut self, table_bytes: usize) -> Result<(), Malformed> {
        self.work = self.work.saturating_add(SAMPLE_WORK + table_bytes as u64);
        match self.work <= WORK.for_payload(self.payload) {
            true => Ok(()),
            false => Err(Malformed("more rows in a block than the maximum")),
        }
    }
}

impl Limit {
    const fn for_payload(&self, payload: u64) -> u64 {
        self.least.saturating_add(self.per_byte.saturating_mul(payload))
    }
}
