//! The ELF images that a process has loaded, read from its own memory.
//!
//! In: its memory map. Out: each image with its program headers and where it was put. No file is
//! opened: one may be deleted, replaced, or in another container; the memory is what runs.

use super::memory;
use super::subject::{Subject, tell};
use super::trouble::Trouble;
use object::elf::{FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};
use procfs::process::{MMapPath, MemoryMap};
use std::os::unix::ffi::OsStrExt as _;

/// The headers of an image are in its first page, but for the strangest.
const HEADERS: u64 = 4096;
const PAGE: u64 = 4096;

/// An image.
#[derive(Debug)]
pub struct Loaded {
    /// Its file, or `[vdso]`.
    pub path: Vec<u8>,
    /// What is added to an address of the file to have that of the memory.
    pub bias: u64,
    /// From its first byte to behind its last.
    pub range: std::ops::Range<u64>,
    /// Its parts.
    pub segments: Vec<Segment>,
}

/// A program header: addresses are those of the memory.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// `PT_…`.
    pub kind: u32,
    /// `PF_…`.
    pub flags: u32,
    /// Where it begins.
    pub address: u64,
    /// How much of it is in the file.
    pub in_file: u64,
    /// How much there is in memory.
    pub in_memory: u64,
}

/// All images, in the order of addresses.
pub fn loaded(subject: &Subject) -> Result<Vec<Loaded>, Trouble> {
    let maps = tell("reading its memory map", subject.proc()?.maps())?;
    let starts = maps.into_iter().filter(|map| map.offset == 0 && may_be_image(map));
    Ok(starts.filter_map(|map| image(subject, &map)).collect())
}

fn may_be_image(map: &MemoryMap) -> bool {
    match map.pathname {
        MMapPath::Path(_) => map.inode != 0,
        MMapPath::Vdso => true,
        _ => false,
    }
}

/// What begins at a mapping, if it is an ELF image: other files are mapped too.
fn image(subject: &Subject, map: &MemoryMap) -> Option<Loaded> {
    let start = map.address.0;
    let bytes = match memory::read(subject, start, HEADERS.min(map.address.1 - start)) {
        Ok(bytes) => bytes,
        Err(Trouble::Fault { done, .. }) => done,
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
    // A library that is read as data is mapped from its first byte too, without being loaded.
    let runs = segments.iter().any(|it| it.kind == elf::PT_LOAD && it.flags & elf::PF_X != 0);
    (runs && range.start < range.end).then(|| Loaded { path: path(map), bias, range, segments })
}

fn path(map: &MemoryMap) -> Vec<u8> {
    match &map.pathname {
        MMapPath::Path(path) => path.as_os_str().as_bytes().to_vec(),
        _ => b"[vdso]".to_vec(),
    }
}
