//! Rows of a trace: a ring of its last records.
//!
//! Mapped by user space and read from the first word to the last: a row whose first and last word
//! are the same number is the complete record of that number.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Records of a trace; a power of two.
pub const ROWS: u32 = 2048;
/// Maximum values of a record.
pub const MAX_VALUES: usize = 4;

/// A record.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Row {
    /// Number of the record, from 1; 0 is none. Written last.
    pub ended: u64,
    /// Time, on `CLOCK_BOOTTIME`.
    pub at_boottime_ns: u64,
    /// Number of values.
    pub n_values: u64,
    /// Values; those beyond `n_values` are other registers.
    pub values: [u64; MAX_VALUES],
    /// Number of the record. Written first.
    pub begun: u64,
}

/// Words of a row.
pub const WORDS: usize = size_of::<Row>() / 8;
const _: () = assert!(size_of::<Row>() == 8 * (4 + MAX_VALUES));
