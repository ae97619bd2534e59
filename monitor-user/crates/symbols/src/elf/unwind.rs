//! Ranges and stacks of functions from unwind tables, which are present even in stripped files.
//!
//! In: an image and an address. Out: the range of code that contains it, and where the stack
//! pointer is at its instructions. It is usually a function, but can be a cold part of one, so
//! nothing is known about how it is entered.

use super::ElfImage;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    Pointer, UnwindContext, UnwindSection as _, X86_64,
};
use object::LittleEndian as Little;
use object::elf::{PT_GNU_EH_FRAME, PT_LOAD};
use std::ops::Range;

/// Bytes of a pointer.
const POINTER: u8 = 8;

type Frames<'a> = EhFrame<EndianSlice<'a, LittleEndian>>;
type Entry<'a> = FrameDescriptionEntry<EndianSlice<'a, LittleEndian>>;

/// The start of the last procedure in an index (`.eh_frame_hdr`, LSB 10.6.2) not after an address.
///
/// `index` is the content of the index and `at` its address; all addresses are either in the file
/// or in memory. `None` if the index is truncated or has no search table.
pub fn procedure_start(index: &[u8], at: u64, address: u64) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(at);
    let header = EhFrameHdr::new(index, LittleEndian).parse(&bases, POINTER).ok()?;
    let table = header.table()?;
    let mut rows = table.iter(&bases);
    let mut start = None;
    while let Some((Pointer::Direct(begins), _)) = rows.next().ok()? {
        if begins > address {
            break;
        }
        start = Some(begins);
    }
    start
}

impl ElfImage {
    /// The range of code around an address; `None` if no table covers it.
    pub fn unwind_range(&self, address: u64) -> Option<Range<u64>> {
        self.with_entry(address, |entry, _, _| Some(entry.initial_address()..entry.end_address()))
    }

    /// Where in the code around an address the stack pointer is at the return address, as on entry
    /// (DWARF 5, 6.4: the canonical frame address is the stack pointer plus eight); `None` if no
    /// table covers it.
    pub fn entry_level_ranges(&self, address: u64) -> Option<Vec<Range<u64>>> {
        self.with_entry(address, |entry, frames, bases| {
            let mut context = UnwindContext::new();
            let mut rows = entry.rows(frames, bases, &mut context).ok()?;
            let mut ranges = Vec::new();
            while let Some(row) = rows.next_row().ok()? {
                let at_entry_level =
                    CfaRule::RegisterAndOffset { register: X86_64::RSP, offset: 8 };
                if *row.cfa() == at_entry_level {
                    ranges.push(row.start_address()..row.end_address());
                }
            }
            Some(ranges)
        })
    }

    fn with_entry<T>(
        &self,
        address: u64,
        take: impl Fn(Entry<'_>, &Frames<'_>, &BaseAddresses) -> Option<T>,
    ) -> Option<T> {
        self.indexed(address, &take).or_else(|| self.searched(address, &take))
    }

    /// Searches the index (`.eh_frame_hdr`).
    fn indexed<T>(
        &self,
        address: u64,
        take: impl Fn(Entry<'_>, &Frames<'_>, &BaseAddresses) -> Option<T>,
    ) -> Option<T> {
        let index = self.segments.iter().find(|segment| segment.kind == PT_GNU_EH_FRAME)?;
        let bytes = self.file.read_at(index.offset, index.length).ok()?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(index.address);
        let header = EhFrameHdr::new(&bytes, LittleEndian).parse(&bases, POINTER).ok()?;
        let Pointer::Direct(frames_at) = header.eh_frame_ptr() else { return None };
        let frames = self.data_from(frames_at)?;
        let bases = bases.set_eh_frame(frames_at);
        let frames = EhFrame::new(&frames, LittleEndian);
        let table = header.table()?;
        let entry =
            table.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
        take(entry, &frames, &bases)
    }

    /// Searches all entries: static programs may have no index.
    fn searched<T>(
        &self,
        address: u64,
        take: impl Fn(Entry<'_>, &Frames<'_>, &BaseAddresses) -> Option<T>,
    ) -> Option<T> {
        let section = self.section_named(".eh_frame")?;
        let bytes = self.content(section).ok()?;
        let bases = BaseAddresses::default().set_eh_frame(section.sh_addr.get(Little));
        let frames = EhFrame::new(&bytes, LittleEndian);
        let entry = frames.fde_for_address(&bases, address, EhFrame::cie_from_offset).ok()?;
        take(entry, &frames, &bases)
    }

    /// The content from an address to the end of its segment.
    fn data_from(&self, address: u64) -> Option<Vec<u8>> {
        let offset = self.offset_of(address)?;
        let mut loaded = self.segments.iter().filter(|it| it.kind == PT_LOAD);
        let segment = loaded.find(|it| it.offset_of(address) == Some(offset))?;
        self.file.read_at(offset, segment.offset.checked_add(segment.length)? - offset).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::procedure_start;

    #[test]
    fn the_index_gives_the_start_of_a_procedure() {
        let mut index = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        for offset in [-0x100_i32, 0, 0x40, 0] {
            index.extend(offset.to_le_bytes());
        }
        assert_eq!(procedure_start(&index, 0x2000, 0x1eff), None);
        assert_eq!(procedure_start(&index, 0x2000, 0x1f00), Some(0x1f00));
        assert_eq!(procedure_start(&index, 0x2000, 0x203f), Some(0x1f00));
        assert_eq!(procedure_start(&index, 0x2000, 0x2050), Some(0x2040));
        index[8] = 3;
        assert_eq!(procedure_start(&index, 0x2000, 0x2050), None, "the table is truncated");
        assert_eq!(procedure_start(&index[..8], 0x2000, 0x2050), None);
    }
}
