//! Shares of the ring of records: how much each user has in it, so that one cannot fill it.
//!
//! `bin/rule` adds what it writes, the reader what it has read. A record is written if the share
//! then has at most [`FREE_FACTOR`] times the free bytes of the ring: one user can take 3/4 of the
//! ring, two 3/7 each, and there is always room for a user that has little in it.
//! <https://doi.org/10.1109/90.664262> has this rule for the shared memory of switches.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum number of shares.
pub const MAX_SHARES: u32 = 256;
/// In a `RECORD` instruction: the share of the user of the process of the event.
pub const OF_PROCESS: u8 = 0;
/// Processes of users without a share, and those that only root may read.
pub const OTHERS: u8 = 1;
/// The first share of a user.
pub const FIRST_OF_USER: u8 = 2;
/// Bytes that a share may have, as a multiple of the free bytes.
pub const FREE_FACTOR: u64 = 3;

/// One share, alone in its cache line.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RecordShare {
    /// Bytes ever written. Changed by programs.
    pub written: u64,
    /// Bytes ever read. Changed by the reader.
    pub read: u64,
    /// Records that found no room. Changed by programs.
    pub lost: u64,
    /// Unused.
    pub pad: [u64; 5],
}

/// Words of a share.
pub const WORDS: usize = size_of::<RecordShare>() / 8;
/// Index of [`RecordShare::read`] in them.
pub const READ: usize = 1;
/// Index of [`RecordShare::lost`] in them.
pub const LOST: usize = 2;

const _: () = assert!(size_of::<RecordShare>() == 64);

/// Bytes of the ring that a record takes: its header, and the record in multiples of 8.
pub const fn ring_bytes<T>() -> u64 {
    8 + size_of::<T>().next_multiple_of(8) as u64
}
