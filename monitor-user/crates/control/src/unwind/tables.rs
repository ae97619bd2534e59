//! The unwind tables of images, shared by the processes that map the same file.
//!
//! In: an image in the memory of a process. Out: its `.eh_frame` and the index, with addresses in
//! the file, so that they are those of every process that maps it. Neither has relocations: what
//! one process maps is what all map.

use crate::loaded_elf::{FileId, LoadedElf, Segment};
use crate::{memory, process_ref::ProcessRef};
use framehop::{ExplicitModuleSectionInfo, Module};
use object::elf::{PT_GNU_EH_FRAME, PT_LOAD};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Encoding of the pointer in the index header: `DW_EH_PE_pcrel|sdata4`.
const RELATIVE: u8 = 0x1b;

/// Tables that have been read, by file.
#[derive(Default)]
pub struct TableCache(HashMap<FileId, Option<UnwindTables>>);

/// The tables of a file, with addresses in it.
#[derive(Clone)]
struct UnwindTables {
    frames: Section,
    index: Section,
}

#[derive(Clone)]
struct Section {
    at: Range<u64>,
    bytes: Arc<[u8]>,
}

impl TableCache {
    /// The tables of an image as a module of the unwinder; `None` if it has none.
    pub fn module(&mut self, process: &ProcessRef, image: &LoadedElf) -> Option<Module<Arc<[u8]>>> {
        let read = || UnwindTables::read(process, image);
        let tables = match image.file {
            Some(file) => self.0.entry(file).or_insert_with(read).clone(),
            None => read(),
        }?;
        let name = String::from_utf8_lossy(&image.path).into_owned();
        let sections = ExplicitModuleSectionInfo {
            eh_frame_svma: Some(tables.frames.at),
            eh_frame: Some(tables.frames.bytes),
            eh_frame_hdr_svma: Some(tables.index.at),
            eh_frame_hdr: Some(tables.index.bytes),
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(name, image.range.clone(), image.bias, sections))
    }
}

impl UnwindTables {
    fn read(process: &ProcessRef, image: &LoadedElf) -> Option<Self> {
        let index = image.segments.iter().find(|it| it.kind == PT_GNU_EH_FRAME)?;
        let head = memory::read(process, index.address, index.in_memory).ok()?;
        let offset = head.get(4..8).filter(|_| head[1] == RELATIVE)?;
        let offset = i32::from_le_bytes(offset.try_into().ok()?);
        let start = (index.address + 4).wrapping_add_signed(i64::from(offset));
        let within = |it: &&Segment| {
            it.kind == PT_LOAD && (it.address..it.address + it.in_file).contains(&start)
        };
        // No program header gives the length of `.eh_frame`; the end of its segment is an upper
        // bound.
        let segment = image.segments.iter().find(within)?;
        let length = (segment.address + segment.in_file - start).min(memory::MAX_BYTES);
        let table = memory::read(process, start, length).ok()?;
        let section = |from: u64, bytes: Vec<u8>| {
            let from = from.wrapping_sub(image.bias);
            Section { at: from..from + bytes.len() as u64, bytes: bytes.into() }
        };
        Some(Self { frames: section(start, table), index: section(index.address, head) })
    }
}
