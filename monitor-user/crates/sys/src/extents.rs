//! The physical layout of a file on its disk: FS_IOC_FIEMAP (linux/fiemap.h).
//!
//! In: an open file. Out: its extents. File systems that do not support the call return an error.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Extents that one call returns.
const AT_ONCE: usize = 128;
/// Most extents that are returned for one file.
pub const MAX_EXTENTS: usize = 65_536;
/// `_IOWR('f', 11, struct fiemap)`, whose fixed part has 32 bytes.
const FIEMAP: libc::Ioctl = 0xc020_660b;
/// The last extent of its file (`FIEMAP_EXTENT_LAST`).
const LAST: u32 = 1;

/// A physically contiguous piece of a file. Positions and lengths are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Extent {
    /// Offset in the file.
    pub logical: u64,
    /// Offset on the disk.
    pub physical: u64,
    /// Its length.
    pub length: u64,
    reserved: [u64; 2],
    /// Bits of `FIEMAP_EXTENT_*`.
    pub flags: u32,
    more_reserved: [u32; 3],
}

const _: () = assert!(size_of::<Extent>() == 56);

impl Extent {
    /// The last extent of a file.
    pub fn last(logical: u64, physical: u64, length: u64) -> Self {
        Self { logical, physical, length, flags: LAST, ..Self::default() }
    }
}

/// `struct fiemap` with room for `AT_ONCE` extents.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; AT_ONCE],
}

const _: () = assert!(size_of::<Map>() == 32 + 56 * AT_ONCE);

/// The extents of a file in logical order, and whether the list was cut at `MAX_EXTENTS`.
pub fn extents(file: BorrowedFd<'_>) -> io::Result<(Vec<Extent>, bool)> {
    let mut all: Vec<Extent> = Vec::new();
    let mut start = 0;
    while all.len() < MAX_EXTENTS {
        let batch = read_batch(file, start)?;
        let Some(last) = batch.last() else { return Ok((all, false)) };
        let (is_last, end) = (last.flags & LAST != 0, last.logical.checked_add(last.length));
        all.extend(batch);
        match end {
            Some(end) if !is_last && end > start => start = end,
            _ => return Ok((all, false)),
        }
    }
    Ok((all, true))
}

fn read_batch(file: BorrowedFd<'_>, start: u64) -> io::Result<Vec<Extent>> {
    let mut map = Map {
        start,
        length: u64::MAX - start,
        flags: 0,
        mapped: 0,
        room: u32::try_from(AT_ONCE).unwrap_or(0),
        reserved: 0,
        extents: [Extent::default(); AT_ONCE],
    };
    // SAFETY: the kernel writes at most `room` extents behind the fixed part, for which `Map` has
    // space; the descriptor is borrowed for the duration of the call.
    let rc = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP, &raw mut map) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    let mapped = usize::try_from(map.mapped).unwrap_or(0).min(AT_ONCE);
    Ok(map.extents[..mapped].to_vec())
}
