//! Where functions begin and end, as the tables for unwinding tell: those are needed to run, so
//! they are there when all names were stripped.
//!
//! In: an image and an address. Out: the piece of code that it is in. A piece is mostly a
//! function, but may be the part of one that is seldom used: nothing is known of how it is entered.

use super::Image;
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, Pointer, UnwindSection as _};
use object::LittleEndian as Little;
use object::elf::{PT_GNU_EH_FRAME, PT_LOAD};
use std::ops::Range;

/// Bytes of a pointer.
const POINTER: u8 = 8;

impl Image {
    /// The piece of code around an address; none where nothing is said of it.
    pub fn unwind_range(&self, address: u64) -> Option<Range<u64>> {
        self.indexed(address).or_else(|| self.searched(address))
    }

    /// By the index that the linker makes for programs that load libraries.
    fn indexed(&self, address: u64) -> Option<Range<u64>> {
        let index = self.segments.iter().find(|segment| segment.kind == PT_GNU_EH_FRAME)?;
        let bytes = self.file.piece(index.offset, index.length).ok()?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(index.address);
        let header = EhFrameHdr::new(&bytes, LittleEndian).parse(&bases, POINTER).ok()?;
        let Pointer::Direct(frames_at) = header.eh_frame_ptr() else { return None };
        let frames = self.data_from(frames_at)?;
        let bases = bases.set_eh_frame(frames_at);
        let frames = EhFrame::new(&frames, LittleEndian);
        let table = header.table()?;
        let entry =
            table.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset).ok()?;
        Some(entry.initial_address()..entry.end_address())
    }

    /// One after the other, as a static program has no index.
    fn searched(&self, address: u64) -> Option<Range<u64>> {
        let section = self.section_named(".eh_frame")?;
        let bytes = self.content(section).ok()?;
        let bases = BaseAddresses::default().set_eh_frame(section.sh_addr.get(Little));
        let frames = EhFrame::new(&bytes, LittleEndian);
        let entry = frames.fde_for_address(&bases, address, EhFrame::cie_from_offset).ok()?;
        Some(entry.initial_address()..entry.end_address())
    }

    /// What the file has from this address to the end of its segment.
    fn data_from(&self, address: u64) -> Option<Vec<u8>> {
        let offset = self.offset_of(address)?;
        let mut loaded = self.segments.iter().filter(|it| it.kind == PT_LOAD);
        let segment = loaded.find(|it| it.offset_of(address) == Some(offset))?;
        self.file.piece(offset, segment.offset.checked_add(segment.length)? - offset).ok()
    }
}
