//! Whether an instruction begins at an address: a breakpoint byte inside one would corrupt it.
//!
//! In: the address, the program's own bytes. Out: start, inside, or unknown. The unwind index gives
//! the start of the procedure (`.eh_frame_hdr`, LSB 10.6.2), from which instructions are decoded; a
//! static program has no index, but the table itself in its file.
//! Code without an index gets a hardware breakpoint instead of a byte.

use crate::loaded_elf::{LoadedElf, Segment, loaded_elfs};
use crate::{ControlError, memory, process_ref::ProcessRef, uprobe_patches};
use iced_x86::{Decoder, DecoderOptions};
use monitor_symbols::elf::{ElfImage, procedure_start};
use monitor_symbols::object_file::ObjectFile;
use object::elf::PT_GNU_EH_FRAME;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// The position of an address relative to instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsnBoundary {
    /// An instruction begins there.
    Start,
    /// It is inside an instruction.
    Inside,
    /// There is no unwind index to decide it.
    Unknown,
}

/// The longest procedure that is decoded, in bytes.
const MAX_PROCEDURE: u64 = 1 << 20;

/// `__restore_rt`: mov $15,%rax; syscall, which is rt_sigreturn(2).
const TRAMPOLINE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Restores the original bytes in code read at an address.
pub type Unpatch<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), ControlError> + 'a;

/// Determines the position of `address`; `unpatch` restores the original bytes of what is read.
pub fn insn_boundary(
    process: &ProcessRef,
    address: u64,
    unpatch: &Unpatch<'_>,
) -> Result<InsnBoundary, ControlError> {
    let images = loaded_elfs(process)?;
    let image = images.iter().find(|it| it.range.contains(&address));
    let start = image.and_then(|image| {
        let indexed = procedure(process, image, address);
        indexed.or_else(|| procedure_in_file(process, image, address))
    });
    let Some(start) = start else {
        return Ok(InsnBoundary::Unknown);
    };
    if address - start > MAX_PROCEDURE {
        return Ok(InsnBoundary::Unknown);
    }
    let start = start + trampoline_offset(process, start, unpatch);
    let mut bytes = memory::read(process, start, address.saturating_sub(start))?;
    unpatch(start, &mut bytes)?;
    Ok(decode_up_to(&bytes, start, address))
}

/// The unwind index of glibc has its signal trampoline begin a byte early, because unwinders look
/// up the byte before a return address, and a handler returns to its first instruction.
fn trampoline_offset(process: &ProcessRef, start: u64, unpatch: &Unpatch<'_>) -> u64 {
    let behind = start + 1;
    let Ok(mut bytes) = memory::read(process, behind, TRAMPOLINE.len() as u64) else { return 0 };
    let is_it = unpatch(behind, &mut bytes).is_ok() && bytes == TRAMPOLINE;
    u64::from(is_it)
}

/// Whether decoding the bytes before the address ends exactly at it.
fn decode_up_to(bytes: &[u8], start: u64, address: u64) -> InsnBoundary {
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        if decoder.decode().is_invalid() {
            // The last instruction is cut off if the address is inside it.
            return InsnBoundary::Inside;
        }
    }
    if decoder.ip() == address { InsnBoundary::Start } else { InsnBoundary::Inside }
}

/// The start of the procedure that contains an address.
fn procedure(process: &ProcessRef, image: &LoadedElf, address: u64) -> Option<u64> {
    let index: &Segment = image.segments.iter().find(|it| it.kind == PT_GNU_EH_FRAME)?;
    let bytes = memory::read(process, index.address, index.in_memory).ok()?;
    procedure_start(&bytes, index.address, address)
}

/// The same by the table in the file of an image without an index.
fn procedure_in_file(process: &ProcessRef, image: &LoadedElf, address: u64) -> Option<u64> {
    if image.segments.iter().any(|it| it.kind == PT_GNU_EH_FRAME) {
        return None;
    }
    let name = Path::new(OsStr::from_bytes(&image.path));
    let file = ObjectFile::open(&uprobe_patches::path_of(process, name), name).ok()?;
    let elf = ElfImage::read(Arc::new(file)).ok()?;
    let range = elf.unwind_range(address.checked_sub(image.bias)?)?;
    Some(image.bias.wrapping_add(range.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mov rax,[rdi]; add rax,1; ret.
    const CODE: [u8; 8] = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc0, 0x01, 0xc3];

    #[test]
    fn an_instruction_begins_where_the_previous_one_ends() {
        let at = |bytes: usize| decode_up_to(&CODE[..bytes], 0x1000, 0x1000 + bytes as u64);
        for begins in [0, 3, 7, 8] {
            assert_eq!(at(begins), InsnBoundary::Start, "{begins}");
        }
        for within in [1, 2, 4, 5, 6] {
            assert_eq!(at(within), InsnBoundary::Inside, "{within}");
        }
    }
}
