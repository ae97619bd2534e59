//! Counts of what BPF programs could not deliver.
//!
//! Each object has one per-CPU array of these, written by its programs only. A count that is
//! itself lost (two writers nested on one CPU) makes the total too small by one, never too large.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Name of the map, in every object that can lose records.
pub const MAP: &str = "LOSS";

/// Losses of one object on one CPU since it was loaded.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Loss {
    /// Records dropped because the ring buffer was full.
    pub ring_full: u64,
    /// New keys dropped because a table was full.
    pub table_full: u64,
    /// Events in total, lost or not.
    pub events: u64,
}

const _: () = assert!(size_of::<Loss>() == 24);
