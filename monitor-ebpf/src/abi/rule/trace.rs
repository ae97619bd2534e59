//! The last records of a trace.
//!
//! Read in the memory of user space, from the first word to the last: a row whose ends are the
//! same number is the record of that number, and whole.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Records that are kept of a trace; a power of two.
pub const ROWS: u32 = 2048;
/// Values of a record.
pub const MAX_VALUES: usize = 4;

/// A record.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Row {
    /// Which record this is, from 1; 0 is none.
    pub ended: u64,
    /// When, on `CLOCK_BOOTTIME`.
    pub at_boottime_ns: u64,
    /// How many values it has.
    pub n_values: u64,
    /// These, and others of its list.
    pub values: [u64; MAX_VALUES],
    /// Which record this will be.
    pub begun: u64,
}

/// Words of a row.
pub const WORDS: usize = size_of::<Row>() / 8;
const _: () = assert!(size_of::<Row>() == 8 * (4 + MAX_VALUES));
