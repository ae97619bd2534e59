//! Block I/O by process and disk: bytes, requests and latencies.
//!
//! I/O counts at the device that carries it out: as requests, or as bios where the device has no
//! requests (zram, brd, pmem). A device that passes its I/O on to others is in [`STACKED`].
//!
//! Written by `bin/block.rs`, read by `loader/block.rs`, which removes rows of ended
//! processes. A new row that finds its table full is counted in `LOSS`, and so is a request that
//! finds [`IN_FLIGHT`] full: it is then counted for no process.

use super::Owner;
use super::offset::offsets;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Table of [`DiskUsage`] by [`OwnerDisk`].
pub const USED: &str = "USED";
/// Table of histograms by [`LatencyKey`].
pub const LATENCY: &str = "LATENCY";
/// Table of [`InFlightRequest`] by the address of the request.
pub const IN_FLIGHT: &str = "IN_FLIGHT";
/// Table of [`InFlightRequest`] by the address of the bio, where the kernel does not pass the
/// request.
pub const QUEUED: &str = "QUEUED";
/// Table of [`Dirtier`] by the address of the inode.
pub const DIRTIED: &str = "DIRTIED";
/// Table of disks that pass their bios on to other disks, where these are counted: major number in
/// the upper half, minor number in the lower. User space fills it.
pub const STACKED: &str = "STACKED";
/// Constant: whether written pages are credited to the process that dirtied their file.
pub const WRITE_BACK: &str = "WRITE_BACK";

/// Kind of a read request: `InFlightRequest::kind`, and index into the arrays of [`DiskUsage`].
pub const READ: u32 = 0;
/// Kind of a write request.
pub const WRITE: u32 = 1;
/// Kind of a discard or secure erase: no data is transferred.
pub const DISCARD: u32 = 2;
/// Kind of a flush of the device's cache.
pub const FLUSH: u32 = 3;
/// Number of kinds.
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
pub struct OwnerDisk {
    /// Process that the I/O is attributed to.
    pub owner: Owner,
    /// Major number of the whole disk.
    pub major: u32,
    /// Minor number of the whole disk.
    pub minor: u32,
}

/// Completed requests of a process on a disk, including failed ones, as in `/proc/diskstats`; bios
/// submitted to a disk without requests.
/// Completions on several CPUs add atomically, so none is lost.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DiskUsage {
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
pub struct LatencyKey {
    /// Process that the I/O is attributed to.
    pub owner: Owner,
    /// Kind of the request.
    pub kind: u32,
    /// Always zero.
    pub zero: u32,
}

/// A request in flight. Written when it starts, removed when it completes. One that is abandoned
/// without a completion stays until the kernel reuses its memory for another request.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct InFlightRequest {
    /// Process that it is attributed to.
    pub owner: Owner,
    /// Start, on `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// [`READ`], [`WRITE`], [`DISCARD`] or [`FLUSH`].
    pub kind: u32,
    /// Always zero.
    pub zero: u32,
}

/// The process that last dirtied a page of a file. The kernel does not report when an inode is
/// freed, so user space removes old rows.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Dirtier {
    /// The process.
    pub owner: Owner,
    /// Time, on `CLOCK_MONOTONIC`.
    pub at_ns: u64,
}

const _: () = assert!(size_of::<OwnerDisk>() == 24);
const _: () = assert!(size_of::<DiskUsage>() == 64);
const _: () = assert!(size_of::<LatencyKey>() == 24);
const _: () = assert!(size_of::<InFlightRequest>() == 32);
const _: () = assert!(size_of::<Dirtier>() == 24);

offsets! {
    /// What is read of a request, of its bios and of the pages in them.
    RequestOffsets in "REQUEST" {
        // `unsigned int` before 6.0, `blk_opf_t` since: 32 bits, the operation in the lowest 8.
        cmd_flags: "request.cmd_flags",
        data_len: "request.__data_len",
        bio: "request.bio",
        // 5.17 removed the disk from the request; 5.15 had added it to the queue.
        rq_disk: "request.rq_disk",
        queue: "request.q",
        queue_disk: "request_queue.disk",
        disk_major: "gendisk.major",
        disk_minor: "gendisk.first_minor",
        queue_mq_ops: "request_queue.mq_ops",
        bdev_disk: "block_device.bd_disk",
        disk_queue: "gendisk.queue",
        // Since 5.12.
        bio_bdev: "bio.bi_bdev",
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
