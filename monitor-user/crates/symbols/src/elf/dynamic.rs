//! What the dynamic linker reads first: the libraries that a file needs, and where it looks.

use super::{ElfImage, entry};
use crate::SymbolError;
use object::LittleEndian as Little;
use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, Dyn64, PT_DYNAMIC, PT_INTERP,
};
use object::pod::slice_from_all_bytes;

/// Most bytes of the dynamic section, and of its strings.
const LONGEST_TABLE: u64 = 1 << 20;
const LONGEST_STRINGS: u64 = 16 << 20;
/// Longest name of a library, and list of directories.
const LONGEST_TEXT: usize = 4096;

/// The dynamic section of a file, as far as libraries are found by it (ld.so(8)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DynamicSection {
    /// Names of the libraries that it needs, in their order.
    pub needed: Vec<String>,
    /// Directories, between colons, that are searched before `LD_LIBRARY_PATH`.
    pub rpath: Option<String>,
    /// Directories that are searched after it, for this file only; then `rpath` means nothing.
    pub runpath: Option<String>,
}

impl ElfImage {
    /// Whether the kernel starts it through a dynamic linker.
    pub fn has_interpreter(&self) -> bool {
        self.segments.iter().any(|it| it.kind == PT_INTERP)
    }

    /// Its dynamic section; an empty one, if it has none.
    ///
    /// # Errors
    ///
    /// When the section contradicts the file.
    pub fn dynamic(&self) -> Result<DynamicSection, SymbolError> {
        let Some(segment) = self.segments.iter().find(|it| it.kind == PT_DYNAMIC) else {
            return Ok(DynamicSection::default());
        };
        let length = segment.length / size_of::<Dyn64<Little>>() as u64;
        let length = length * size_of::<Dyn64<Little>>() as u64;
        if length > LONGEST_TABLE {
            return Err(self.file.malformed("a dynamic section of at most 1 MiB"));
        }
        let bytes = self.file.read_at(segment.offset, length)?;
        let rows = slice_from_all_bytes::<Dyn64<Little>>(&bytes);
        let rows =
            rows.map_err(|()| self.file.malformed("whole entries of the dynamic section"))?;
        let rows = rows.iter().map(|it| (it.d_tag.get(Little), it.d_val.get(Little)));
        let rows: Vec<(i64, u64)> = rows.take_while(|it| it.0 != DT_NULL).collect();
        let value = |tag: i64| rows.iter().find(|it| it.0 == tag).map(|it| it.1);
        let (Some(at), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else {
            return Ok(DynamicSection::default());
        };
        let malformed = || self.file.malformed("names in the dynamic section");
        if size > LONGEST_STRINGS {
            return Err(malformed());
        }
        let strings = self.file.read_at(self.offset_of(at).ok_or_else(malformed)?, size)?;
        let text = |at: u64| {
            let at = u32::try_from(at).map_err(|_| malformed())?;
            let text = entry(&strings, at, LONGEST_TEXT).and_then(|it| it.to_str().ok());
            text.map(str::to_owned).ok_or_else(malformed)
        };
        let needed = rows.iter().filter(|it| it.0 == DT_NEEDED).map(|it| text(it.1));
        Ok(DynamicSection {
            needed: needed.collect::<Result<_, _>>()?,
            rpath: value(DT_RPATH).map(text).transpose()?,
            runpath: value(DT_RUNPATH).map(text).transpose()?,
        })
    }
}
