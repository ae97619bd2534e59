//! Block I/O: what was transferred for a process, where, and how long it took.
//!
//! Written by `bin/block.rs`, read and removed by `backend/ebpf/block.rs` once the process has
//! ended. A new row that found its table full is counted in `LOSS`, and so is a request that
//! found [`IN_FLIGHT`] full: it is then counted for nobody.

use super::Owner;
use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Table of [`Use`] by [`Place`].
pub const USED: &str = "USED";
/// Table of histograms by [`Timed`].
pub const LATENCY: &str = "LATENCY";
/// Table of [`Flight`] by the address of the request.
pub const IN_FLIGHT: &str = "IN_FLIGHT";
/// Table of [`Flight`] by the address of the bio, where the kernel does not tell the request.
pub const QUEUED: &str = "QUEUED";
/// Table of [`Dirtier`] by the address of the inode.
pub const DIRTIED: &str = "DIRTIED";
/// Constant: whether written pages are credited to the process that dirtied their file.
pub const WRITE_BACK: &str = "WRITE_BACK";

/// What a request does, as `Flight::kind` and as the place in the arrays of [`Use`].
pub const READ: u32 = 0;
/// Writes.
pub const WRITE: u32 = 1;
/// Discards (and secure erases): nothing is transferred, but blocks are given up.
pub const DISCARD: u32 = 2;
/// Asks the device to empty its cache.
pub const FLUSH: u32 = 3;
/// How many kinds there are.
pub const KINDS: usize = 4;

/// A process and a disk.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
)]
#[repr(C)]
pub struct Place {
    /// Whose I/O.
    pub owner: Owner,
    /// Major number of the whole disk.
    pub major: u32,
    /// Minor number of the whole disk.
    pub minor: u32,
}

/// What was completed for a process on a disk, failed requests too, as `/proc/diskstats` counts.
/// Completions on several CPUs add atomically; none is lost.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Use {
    /// Bytes, by kind; a flush has none.
    pub bytes: [u64; KINDS],
    /// Requests, by kind.
    pub requests: [u64; KINDS],
}

/// A process and a kind of request: [`READ`] or [`WRITE`].
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Timed {
    /// Whose I/O.
    pub owner: Owner,
    /// Which kind.
    pub kind: u32,
    /// Always zero.
    pub zero: u32,
}

/// A request on its way. Written as it starts, removed as it is complete. One that is given up
/// without a completion stays until the kernel uses its memory for another request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Flight {
    /// Who submitted it.
    pub owner: Owner,
    /// When, on `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// [`READ`], [`WRITE`], [`DISCARD`] or [`FLUSH`].
    pub kind: u32,
    /// Always zero.
    pub zero: u32,
}

/// Who made a page of a file dirty last. The kernel does not say when a file is forgotten, so
/// user space removes rows that have been left alone for long.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Dirtier {
    /// Who.
    pub owner: Owner,
    /// When, on `CLOCK_MONOTONIC`.
    pub at_ns: u64,
}

const _: () = assert!(size_of::<Place>() == 24);
const _: () = assert!(size_of::<Use>() == 64);
const _: () = assert!(size_of::<Timed>() == 24);
const _: () = assert!(size_of::<Flight>() == 32);
const _: () = assert!(size_of::<Dirtier>() == 24);

offsets! {
    /// What is read of a request, of its bios and of the pages in them.
    RequestOffsets in "REQUEST" {
        // `unsigned int` before 6.0, `blk_opf_t` since: 32 bits, the operation in the lowest 8.
        cmd_flags: "request.cmd_flags",
        data_len: "request.__data_len",
        bio: "request.bio",
        // 5.17 took the disk out of the request; 5.15 had given it to the queue.
        rq_disk: "request.rq_disk",
        queue: "request.q",
        queue_disk: "request_queue.disk",
        disk_major: "gendisk.major",
        disk_minor: "gendisk.first_minor",
        bio_opf: "bio.bi_opf",
        bio_size: "bio.bi_iter.bi_size",
        bio_next: "bio.bi_next",
        bio_vecs: "bio.bi_io_vec",
        vec_page: "bio_vec.bv_page",
        page_head: "page.compound_head",
        page_mapping: "folio.mapping" | "page.mapping",
        mapping_host: "address_space.host",
        inode_mode: "inode.i_mode",
    }
}
