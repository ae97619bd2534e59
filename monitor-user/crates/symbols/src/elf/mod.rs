//! ELF files: segments, symbols, notes and unwind tables.
//!
//! In: an open file, whose content is untrusted. Out: our own types. Uses `object` and `gimli`,
//! whose types stay in this folder. Knows nothing of processes.

mod dynamic;
mod note;
mod symbol;
mod unwind;

pub use dynamic::DynamicSection;
pub use note::StaticProbe;
pub use symbol::{Symbol, SymbolKind, TableSymbol};
pub use unwind::procedure_start;

use super::{SymbolError, object_file::ObjectFile};
use object::LittleEndian as Little;
use object::elf::{
    EM_X86_64, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_LOAD, PT_NOTE, ProgramHeader64,
    SectionHeader64,
};
use object::pod::{from_bytes, slice_from_all_bytes};
use std::{ffi::CStr, sync::Arc};

/// Most program or section headers of a file.
const MOST_HEADERS: u16 = 16_384;

/// Longest name of a section.
const LONGEST_SECTION_NAME: usize = 256;
/// Most segments of notes that are searched, and bytes of one.
const MOST_NOTE_SEGMENTS: usize = 16;
const LONGEST_NOTES: u64 = 1 << 20;

/// Mask of the offset within a page.
const PAGE: u64 = 4095;

/// An ELF file of a supported architecture.
#[derive(Debug)]
pub struct ElfImage {
    /// The file.
    pub file: Arc<ObjectFile>,
    /// The address of the entry point.
    pub entry: u64,
    segments: Vec<Segment>,
    sections: Vec<SectionHeader64<Little>>,
    /// Index of the section with the section names.
    names_in: usize,
}

/// A program header.
#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    is_executable: bool,
    address: u64,
    offset: u64,
    length: u64,
}

impl Segment {
    fn offset_of(&self, address: u64) -> Option<u64> {
        let inside = address.checked_sub(self.address).filter(|inside| *inside < self.length)?;
        self.offset.checked_add(inside)
    }
}

impl ElfImage {
    /// Reads the headers of a file.
    pub fn read(file: Arc<ObjectFile>) -> Result<Self, SymbolError> {
        let head = file.read_at(0, size_of::<FileHeader64<Little>>() as u64);
        let head = head.map_err(|_| unsupported(&file, "not an ELF file"))?;
        let (header, _) = from_bytes::<FileHeader64<Little>>(&head)
            .map_err(|()| file.malformed("the header of an ELF file"))?;
        let ident = &header.e_ident;
        if ident.magic != object::elf::ELFMAG {
            return Err(unsupported(&file, "not an ELF file"));
        }
        let is_known = ident.class == object::elf::ELFCLASS64
            && ident.data == object::elf::ELFDATA2LSB
            && header.e_machine.get(Little) == EM_X86_64;
        if !is_known {
            return Err(unsupported(&file, "only 64-bit x86 code is supported"));
        }
        let segments = headers(&file, header.e_phoff.get(Little), header.e_phnum.get(Little))?;
        let segments = segments.iter().map(segment).collect();
        // Section headers may be stripped; only linkers and debuggers need them.
        let sections = headers(&file, header.e_shoff.get(Little), header.e_shnum.get(Little));
        let names_in = usize::from(header.e_shstrndx.get(Little));
        let (sections, entry) = (sections.unwrap_or_default(), header.e_entry.get(Little));
        Ok(Self { segments, sections, names_in, entry, file })
    }

    /// The file offset of the code at an address.
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        self.code_segments().find_map(|segment| segment.offset_of(address))
    }

    /// The address of the code at a file offset.
    pub fn code_address(&self, offset: u64) -> Option<u64> {
        let mut found = self.code_segments().filter_map(|segment| {
            let inside = offset.checked_sub(segment.offset)?;
            (inside < segment.length).then(|| segment.address.checked_add(inside))?
        });
        found.next()
    }

    /// At most `most` bytes of code from an address on, cut at the end of the segment.
    pub fn code(&self, address: u64, most: u64) -> Result<Vec<u8>, SymbolError> {
        let segment = self.code_segments().find(|segment| segment.offset_of(address).is_some());
        let segment =
            segment.ok_or_else(|| self.file.malformed(format!("code at {address:#x}")))?;
        let inside = address - segment.address;
        self.file.read_at(segment.offset + inside, most.min(segment.length - inside))
    }

    /// The GNU build id, if there is one.
    pub fn build_id(&self) -> Option<Vec<u8>> {
        let notes = self.segments.iter().filter(|segment| segment.kind == PT_NOTE);
        let notes = notes.take(MOST_NOTE_SEGMENTS).filter(|it| it.length <= LONGEST_NOTES);
        notes.filter_map(|notes| self.file.read_at(notes.offset, notes.length).ok()).find_map(
            |bytes| {
                // Names and contents are padded to four bytes, whatever the segment alignment.
                let mut notes =
                    object::read::elf::NoteIterator::<FileHeader64<Little>>::new(Little, 4, &bytes)
                        .ok()?;
                std::iter::from_fn(|| notes.next().ok().flatten())
                    .find(|note| note.name() == b"GNU" && note.n_type(Little) == NT_GNU_BUILD_ID)
                    .map(|note| note.desc().to_vec())
            },
        )
    }

    /// The load bias, given the address and file offset of a mapping.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // Mappings consist of whole pages, so one may begin before its segment.
        let is_there = |it: &&Segment| {
            it.offset & !PAGE <= offset && offset < it.offset.saturating_add(it.length)
        };
        let segment = self.code_segments().find(is_there)?;
        let address = segment.address.wrapping_add(offset).wrapping_sub(segment.offset);
        Some(start.wrapping_sub(address))
    }

    /// Whether there is a section with this name.
    pub fn has_section(&self, name: &str) -> bool {
        self.section_named(name).is_some()
    }

    fn section_named(&self, name: &str) -> Option<&SectionHeader64<Little>> {
        let names = self.sections.get(self.names_in);
        let names: Vec<u8> = names.and_then(|it| self.content(it).ok()).unwrap_or_default();
        let is_it = |it: &&SectionHeader64<Little>| {
            text(&names, it.sh_name.get(Little), LONGEST_SECTION_NAME) == Some(name)
        };
        self.sections.iter().find(is_it)
    }

    /// The content of a section.
    fn content(&self, section: &SectionHeader64<Little>) -> Result<Vec<u8>, SymbolError> {
        self.file.read_at(section.sh_offset.get(Little), section.sh_size.get(Little))
    }

    fn code_segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|it| it.kind == PT_LOAD && it.is_executable)
    }

    /// The file offset of an address of code or data.
    fn offset_of(&self, address: u64) -> Option<u64> {
        let mut loaded = self.segments.iter().filter(|it| it.kind == PT_LOAD);
        loaded.find_map(|segment| segment.offset_of(address))
    }
}

/// An entry of a string table; `None` if it is longer than `longest`: entries may overlap, so a
/// small table can hold any number of long ones.
fn entry(strings: &[u8], at: u32, longest: usize) -> Option<&CStr> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    CStr::from_bytes_until_nul(&rest[..rest.len().min(longest + 1)]).ok()
}

/// The same; `None` if it is not UTF-8.
fn text(strings: &[u8], at: u32, longest: usize) -> Option<&str> {
    entry(strings, at, longest)?.to_str().ok()
}

fn unsupported(file: &ObjectFile, why: &'static str) -> SymbolError {
    SymbolError::Unsupported { path: file.path.clone(), why }
}

/// Reads a table of headers.
fn headers<T: object::Pod + Clone>(
    file: &ObjectFile,
    at: u64,
    count: u16,
) -> Result<Vec<T>, SymbolError> {
    if count > MOST_HEADERS {
        return Err(file.malformed(format!("at most {MOST_HEADERS} headers")));
    }
    let bytes = file.read_at(at, u64::from(count) * size_of::<T>() as u64)?;
    let rows = slice_from_all_bytes::<T>(&bytes);
    Ok(rows.map_err(|()| file.malformed("whole headers"))?.to_vec())
}

fn segment(header: &ProgramHeader64<Little>) -> Segment {
    Segment {
        kind: header.p_type.get(Little),
        is_executable: header.p_flags.get(Little) & PF_X != 0,
        address: header.p_vaddr.get(Little),
        offset: header.p_offset.get(Little),
        length: header.p_filesz.get(Little),
    }
}

#[cfg(test)]
mod tests;
