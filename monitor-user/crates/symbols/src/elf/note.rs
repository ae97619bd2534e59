//! ELF notes of static probes (USDT).
//!
//! In: the sections of an image. Out: provider, name, arguments and address of each probe, and the
//! messages by address. The format is that of SystemTap's `sys/sdt.h`, version 3.

use super::{ElfImage, Little};
use crate::SymbolError;
use object::elf::{FileHeader64, SectionHeader64};

/// The type of a note in `.note.stapsdt` (`sys/sdt.h`: `_SDT_NOTE_TYPE`).
const PROBE: u32 = 3;
/// The type of a note in `.note.monitor`.
const MESSAGE: u32 = 1;
/// Most bytes of a section that is read.
const LONGEST: u64 = 16 << 20;

/// A static probe, from its note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticProbe {
    /// Its provider.
    pub provider: String,
    /// Its name within the provider.
    pub name: String,
    /// The locations of its arguments, in assembler syntax.
    pub arguments: String,
    /// Its address in the file.
    pub address: u64,
    /// The address in the note, which prelink does not adjust.
    pub noted: u64,
}

impl ElfImage {
    /// The static probes of the file.
    pub fn static_probes(&self) -> Result<Vec<StaticProbe>, SymbolError> {
        let base = self.section_named(".stapsdt.base").map(|it| it.sh_addr.get(Little));
        let probe = |desc: &[u8]| {
            let (noted, rest) = word(desc)?;
            let (noted_base, rest) = word(rest)?;
            let (_semaphore, rest) = word(rest)?;
            let mut texts = rest.split(|byte| *byte == 0);
            let mut text = || texts.next().map(|it| String::from_utf8_lossy(it).into_owned());
            // Prelink may have moved the code since the note was written.
            let moved = base.map_or(0, |base| base.wrapping_sub(noted_base));
            let address = noted.wrapping_add(moved);
            let (provider, name, arguments) = (text()?, text()?, text()?);
            Some(StaticProbe { provider, name, arguments, address, noted })
        };
        self.notes(".note.stapsdt", (b"stapsdt", PROBE), probe)
    }

    /// The messages of probes, by the address in their notes.
    pub fn messages(&self) -> Result<Vec<(u64, String)>, SymbolError> {
        let message = |desc: &[u8]| {
            let (noted, rest) = word(desc)?;
            let text = rest.split(|byte| *byte == 0).next()?;
            Some((noted, String::from_utf8_lossy(text).into_owned()))
        };
        self.notes(".note.monitor", (b"monitor", MESSAGE), message)
    }

    fn notes<T>(
        &self,
        section: &str,
        (owner, kind): (&[u8], u32),
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, SymbolError> {
        let Some(section) = self.section_named(section) else { return Ok(Vec::new()) };
        let wrong = || self.file.malformed("whole notes of static probes");
        let bytes = self.noted(section)?;
        let notes = object::read::elf::NoteIterator::<FileHeader64<Little>>::new(Little, 4, &bytes);
        let mut notes = notes.map_err(|_| wrong())?;
        let mut found = Vec::new();
        while let Some(note) = notes.next().map_err(|_| wrong())? {
            if note.name() == owner && note.n_type(Little) == kind {
                found.push(read(note.desc()).ok_or_else(wrong)?);
            }
        }
        Ok(found)
    }

    fn noted(&self, section: &SectionHeader64<Little>) -> Result<Vec<u8>, SymbolError> {
        let length = section.sh_size.get(Little);
        if length > LONGEST {
            return Err(self.file.malformed(format!("at most {LONGEST} bytes of notes")));
        }
        self.file.read_at(section.sh_offset.get(Little), length)
    }
}

/// Splits off a 64-bit number.
fn word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*first), rest))
}
