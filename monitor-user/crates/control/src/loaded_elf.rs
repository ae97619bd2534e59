//! The ELF images that a process has loaded, read from its memory.
//!
//! In: its memory map. Out: each image with its program headers and load address. No file is
//! opened: it may be deleted, replaced or in another mount namespace, and memory is what runs.

use super::process_ref::ProcessRef;
use super::{ControlError, memory};
use object::elf::{FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};
use procfs::process::{MMapPath, MemoryMap};
use std::os::unix::ffi::OsStrExt as _;

/// Bytes read for the headers of an image, which are practically always in its first page.
const HEADERS: u64 = 4096;
const PAGE: u64 = 4096;

/// A file: its device, major and minor, and its inode number.
pub type FileId = ((i32, i32), u64);

/// A loaded ELF image.
#[derive(Debug)]
pub struct LoadedElf {
    /// Its file; `None` for the vDSO.
    pub file: Option<FileId>,
    /// Path of its file, or `[vdso]`.
    pub path: Vec<u8>,
    /// Load bias: memory address minus address in the file.
    pub bias: u64,
    /// Its address range.
    pub range: std::ops::Range<u64>,
    /// Its program headers.
    pub segments: Vec<Segment>,
}

/// A program header with addresses in memory.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// `PT_…`.
    pub kind: u32,
    /// `PF_…`.
    pub flags: u32,
    /// Start address.
    pub address: u64,
    /// Bytes present in the file.
    pub in_file: u64,
    /// Bytes in memory.
    pub in_memory: u64,
}

/// All loaded images, ordered by address.
pub fn loaded_elfs(process: &ProcessRef) -> Result<Vec<LoadedElf>, ControlError> {
    Ok(loaded_elfs_in(process, &process.maps()?))
}

/// Those in a memory map that was read before.
pub fn loaded_elfs_in(process: &ProcessRef, maps: &[MemoryMap]) -> Vec<LoadedElf> {
    let starts = maps.iter().filter(|map| map.offset == 0 && may_be_image(map));
    starts.filter_map(|map| image(process, map)).collect()
}

fn may_be_image(map: &MemoryMap) -> bool {
    match map.pathname {
        MMapPath::Path(_) => map.inode != 0,
        MMapPath::Vdso => true,
        _ => false,
    }
}

/// The ELF image that starts at a mapping; `None` for other mapped files.
fn image(process: &ProcessRef, map: &MemoryMap) -> Option<LoadedElf> {
    let start = map.address.0;
    let bytes = match memory::read(process, start, HEADERS.min(map.address.1 - start)) {
        Ok(bytes) => bytes,
        Err(ControlError::Fault { done, .. }) => done,
        Err(_) => return None,
    };
    let header = FileHeader64::<Endianness>::parse(bytes.as_slice()).ok()?;
    let order = header.endian().ok()?;
    let headers = header.program_headers(order, bytes.as_slice()).ok()?;
    let parts = headers.iter().filter(|it| it.p_type(order) == elf::PT_LOAD);
    let lowest = parts.clone().map(|it| it.p_vaddr(order)).min()? & !(PAGE - 1);
    let highest = parts.map(|it| it.p_vaddr(order) + it.p_memsz(order)).max()?;
    let bias = start.wrapping_sub(lowest);
    let segment = |it: &ProgramHeader64<Endianness>| Segment {
        kind: it.p_type(order),
        flags: it.p_flags(order),
        address: bias.wrapping_add(it.p_vaddr(order)),
        in_file: it.p_filesz(order),
        in_memory: it.p_memsz(order),
    };
    let range = start..bias.wrapping_add(highest);
    let segments: Vec<_> = headers.iter().map(segment).collect();
    // A library that is only read as data is mapped too, but without executable segment.
    let runs = segments.iter().any(|it| it.kind == elf::PT_LOAD && it.flags & elf::PF_X != 0);
    let file = (map.inode != 0).then_some((map.dev, map.inode));
    let has_range = range.start < range.end;
    (runs && has_range).then(|| LoadedElf { file, path: path(map), bias, range, segments })
}

fn path(map: &MemoryMap) -> Vec<u8> {
    match &map.pathname {
        MMapPath::Path(path) => path.as_os_str().as_bytes().to_vec(),
        _ => b"[vdso]".to_vec(),
    }
}
