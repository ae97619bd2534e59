//! Reader of block requests, bios and their pages: `struct request` and `struct bio`.

use super::{constant, load, probe};
use crate::abi::block::{DISCARD, FLUSH, READ, RequestOffsets, WRITE};
use crate::abi::offset::ABSENT;

/// Set by the loader.
#[unsafe(no_mangle)]
static REQUEST: RequestOffsets = RequestOffsets::ABSENT;

/// A block request, as the verifier's typed pointer.
#[derive(Clone, Copy)]
pub struct Request(*const u8);

/// A bio, of which a request has one or more.
#[derive(Clone, Copy)]
pub struct Bio(*const u8);

/// A file in memory.
#[derive(Clone, Copy)]
pub struct Inode(*const u8);

impl Request {
    /// Wraps a pointer passed to the program by the kernel.
    #[inline(always)]
    pub fn from_kernel(pointer: *const u8) -> Self {
        Self(pointer)
    }

    /// Its address: identifies it while it is in flight.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// Bytes that are not complete yet.
    #[inline(always)]
    pub fn bytes_left(self) -> u32 {
        load(self.0, constant!(REQUEST.data_len))
    }

    /// Its kind, if it is counted.
    #[inline(always)]
    pub fn kind(self) -> Option<u32> {
        kind(load(self.0, constant!(REQUEST.cmd_flags)), self.bytes_left())
    }

    /// Its first bio that is not complete yet.
    #[inline(always)]
    pub fn bio(self) -> Bio {
        Bio(load(self.0, constant!(REQUEST.bio)))
    }

    /// Major and minor number of its disk, whole.
    #[inline(always)]
    pub fn disk(self) -> (u32, u32) {
        let disk: *const u8 = if constant!(REQUEST.queue_disk) != ABSENT {
            load(load(self.0, constant!(REQUEST.queue)), constant!(REQUEST.queue_disk))
        } else {
            load(self.0, constant!(REQUEST.rq_disk))
        };
        numbers(disk)
    }
}

/// Major and minor number of a disk.
#[inline(always)]
fn numbers(disk: *const u8) -> (u32, u32) {
    (load(disk, constant!(REQUEST.disk_major)), load(disk, constant!(REQUEST.disk_minor)))
}

impl Bio {
    /// Wraps a pointer passed to the program by the kernel.
    #[inline(always)]
    pub fn from_kernel(pointer: *const u8) -> Self {
        Self(pointer)
    }

    /// Its address, zero for none: identifies it while it is in flight.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// Its kind, if it is counted.
    #[inline(always)]
    pub fn kind(self) -> Option<u32> {
        kind(probe(self.0, constant!(REQUEST.bio_opf)), self.bytes())
    }

    /// Bytes that it transfers.
    #[inline(always)]
    pub fn bytes(self) -> u32 {
        probe(self.0, constant!(REQUEST.bio_size))
    }

    /// Major and minor number of its disk, if that has no requests. For an argument of a typed
    /// tracepoint.
    #[inline(always)]
    pub fn disk_without_requests(self) -> Option<(u32, u32)> {
        if constant!(REQUEST.bio_bdev) == ABSENT {
            return None;
        }
        let device: *const u8 = load(self.0, constant!(REQUEST.bio_bdev));
        let disk: *const u8 = load(device, constant!(REQUEST.bdev_disk));
        let queue: *const u8 = load(disk, constant!(REQUEST.disk_queue));
        let has_requests = load::<u64>(queue, constant!(REQUEST.queue_mq_ops)) != 0;
        if has_requests { None } else { Some(numbers(disk)) }
    }

    /// The bio after it in the same request.
    #[inline(always)]
    pub fn next(self) -> Self {
        Self(probe(self.0, constant!(REQUEST.bio_next)))
    }

    /// The file whose cached page is the first one that it transfers, if it is such a page.
    /// None for memory of a process (direct I/O) or a copy made by the file system.
    #[inline(always)]
    pub fn file(self) -> Option<Inode> {
        /// Low bits of `page.mapping` that mark another kind of pointer (`PAGE_MAPPING_FLAGS`).
        const NOT_A_FILE: u64 = 3;
        let vecs: *const u8 = probe(self.0, constant!(REQUEST.bio_vecs));
        let page: *const u8 = probe(vecs, constant!(REQUEST.vec_page));
        let mapping: u64 = probe(head(page), constant!(REQUEST.page_mapping));
        if mapping == 0 || mapping & NOT_A_FILE != 0 {
            return None;
        }
        Inode::from_mapping(mapping as *const u8)
    }
}

impl Inode {
    /// The file that a mapping belongs to; a page that is already truncated has none.
    #[inline(always)]
    pub fn from_mapping(mapping: *const u8) -> Option<Self> {
        if mapping.is_null() {
            return None;
        }
        let host: *const u8 = probe(mapping, constant!(REQUEST.mapping_host));
        if host.is_null() { None } else { Some(Self(host)) }
    }

    /// Its address: identifies it while it is in memory.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// Whether it is a regular file.
    #[inline(always)]
    pub fn is_regular(self) -> bool {
        let mode: u16 = probe(self.0, constant!(REQUEST.inode_mode));
        mode & 0o170_000 == 0o100_000
    }
}

/// The head page of its folio. The lowest bit of `compound_head` marks tail pages.
#[inline(always)]
fn head(page: *const u8) -> *const u8 {
    if constant!(REQUEST.page_head) == ABSENT {
        return page;
    }
    let head: u64 = probe(page, constant!(REQUEST.page_head));
    if head & 1 == 1 { (head - 1) as *const u8 } else { page }
}

/// Classifies an operation (`enum req_op`, the low 8 bits) as `op_stat_group` of the kernel does.
/// Operations without data of a process (zone management, driver commands) have no kind.
#[inline(always)]
fn kind(flags: u32, bytes: u32) -> Option<u32> {
    match flags & 0xff {
        0 => Some(READ),
        // `blkdev_issue_flush` submits an empty write.
        1 | 2 if bytes == 0 => Some(FLUSH),
        // WRITE; WRITE_SAME or ZONE_APPEND; WRITE_ZEROES; ZONE_APPEND of 5.10.
        1 | 7 | 9 | 13 if bytes > 0 => Some(WRITE),
        // DISCARD, SECURE_ERASE.
        3 | 5 => Some(DISCARD),
        _ => None,
    }
}
