//! What an ELF file says of its code: segments, functions, and where functions begin.
//!
//! In: an open file, which may lie about everything. Out: tables of our own. Written with `object`
//! and `gimli`; both stay in this folder. Runs nothing, and knows no process.

mod note;
mod symbol;
mod unwind;

pub use note::StaticProbe;
pub use symbol::{Kind, Symbol};

use super::error::Error;
use super::opened::Opened;
use object::LittleEndian as Little;
use object::elf::{
    EM_X86_64, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_DYNAMIC, PT_LOAD, PT_NOTE, ProgramHeader64,
    SectionHeader64,
};
use object::pod::{from_bytes, slice_from_all_bytes};
use std::sync::Arc;

/// Most headers of segments or sections that a file may have.
const MOST_HEADERS: u16 = 16_384;

/// The bits of an address within a page.
const PAGE: u64 = 4095;

/// An ELF file for this kind of machine.
#[derive(Debug)]
pub struct Image {
    /// The file.
    pub file: Arc<Opened>,
    /// The address at which a program begins.
    pub entry: u64,
    segments: Vec<Segment>,
    sections: Vec<SectionHeader64<Little>>,
    /// Which section has the names of the sections.
    names_in: usize,
}

/// A piece of the file and its place in memory.
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

impl Image {
    /// Reads the headers.
    pub fn read(file: Arc<Opened>) -> Result<Self, Error> {
        let head = file.piece(0, size_of::<FileHeader64<Little>>() as u64);
        let head = head.map_err(|_| unsupported(&file, "it is no ELF file"))?;
        let (header, _) = from_bytes::<FileHeader64<Little>>(&head)
            .map_err(|()| file.malformed("the header of an ELF file"))?;
        let ident = &header.e_ident;
        if ident.magic != object::elf::ELFMAG {
            return Err(unsupported(&file, "it is no ELF file"));
        }
        let is_known = ident.class == object::elf::ELFCLASS64
            && ident.data == object::elf::ELFDATA2LSB
            && header.e_machine.get(Little) == EM_X86_64;
        if !is_known {
            return Err(unsupported(&file, "only code for 64-bit x86 can be decoded here"));
        }
        let segments = headers(&file, header.e_phoff.get(Little), header.e_phnum.get(Little))?;
        let segments = segments.iter().map(segment).collect();
        // A file may have lost the sections, which only linkers and debuggers need.
        let sections = headers(&file, header.e_shoff.get(Little), header.e_shnum.get(Little));
        let names_in = usize::from(header.e_shstrndx.get(Little));
        let (sections, entry) = (sections.unwrap_or_default(), header.e_entry.get(Little));
        Ok(Self { segments, sections, names_in, entry, file })
    }

    /// Where in the file the code at this address is.
    pub fn code_offset(&self, address: u64) -> Option<u64> {
        self.code_segments().find_map(|segment| segment.offset_of(address))
    }

    /// The address of the code at this place of the file.
    pub fn code_address(&self, offset: u64) -> Option<u64> {
        let mut found = self.code_segments().filter_map(|segment| {
            let inside = offset.checked_sub(segment.offset)?;
            (inside < segment.length).then(|| segment.address.checked_add(inside))?
        });
        found.next()
    }

    /// Code from this address on, at most so many bytes, cut where the code ends.
    pub fn code(&self, address: u64, most: u64) -> Result<Vec<u8>, Error> {
        let segment = self.code_segments().find(|segment| segment.offset_of(address).is_some());
        let segment =
            segment.ok_or_else(|| self.file.malformed(format!("code at {address:#x}")))?;
        let inside = address - segment.address;
        self.file.piece(segment.offset + inside, most.min(segment.length - inside))
    }

    /// What the linker wrote to tell builds apart, if it did.
    pub fn build_id(&self) -> Option<Vec<u8>> {
        let notes = self.segments.iter().filter(|segment| segment.kind == PT_NOTE);
        notes.filter_map(|notes| self.file.piece(notes.offset, notes.length).ok()).find_map(
            |bytes| {
                // Name and content are padded to four bytes, whatever the segment is aligned to.
                let mut notes =
                    object::read::elf::NoteIterator::<FileHeader64<Little>>::new(Little, 4, &bytes)
                        .ok()?;
                std::iter::from_fn(|| notes.next().ok().flatten())
                    .find(|note| note.name() == b"GNU" && note.n_type(Little) == NT_GNU_BUILD_ID)
                    .map(|note| note.desc().to_vec())
            },
        )
    }

    /// What is to be added to an address of the file where this piece of it is mapped.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // Pages are mapped whole, so a mapping may begin before its segment does.
        let is_there = |it: &&Segment| {
            it.offset & !PAGE <= offset && offset < it.offset.saturating_add(it.length)
        };
        let segment = self.code_segments().find(is_there)?;
        let address = segment.address.wrapping_add(offset).wrapping_sub(segment.offset);
        Some(start.wrapping_sub(address))
    }

    /// Whether there is a section of that name.
    pub fn has_section(&self, name: &str) -> bool {
        self.section_named(name).is_some()
    }

    fn section_named(&self, name: &str) -> Option<&SectionHeader64<Little>> {
        let names = self.sections.get(self.names_in);
        let names: Vec<u8> = names.and_then(|it| self.content(it).ok()).unwrap_or_default();
        let is_it = |it: &&SectionHeader64<Little>| {
            symbol::text(&names, it.sh_name.get(Little)) == Some(name)
        };
        self.sections.iter().find(is_it)
    }

    /// Whether the dynamic linker has a part in it: otherwise its code stands where it says.
    pub fn is_dynamic(&self) -> bool {
        self.segments.iter().any(|segment| segment.kind == PT_DYNAMIC)
    }

    fn code_segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|it| it.kind == PT_LOAD && it.is_executable)
    }

    /// Where in the file this address is, of code or of data.
    fn offset_of(&self, address: u64) -> Option<u64> {
        let mut loaded = self.segments.iter().filter(|it| it.kind == PT_LOAD);
        loaded.find_map(|segment| segment.offset_of(address))
    }
}

fn unsupported(file: &Opened, why: &'static str) -> Error {
    Error::Unsupported { path: file.path.clone(), why }
}

/// A table of headers.
fn headers<T: object::Pod + Clone>(file: &Opened, at: u64, count: u16) -> Result<Vec<T>, Error> {
    if count > MOST_HEADERS {
        return Err(file.malformed(format!("at most {MOST_HEADERS} headers")));
    }
    let bytes = file.piece(at, u64::from(count) * size_of::<T>() as u64)?;
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
