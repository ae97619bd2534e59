//! Whether an instruction begins at an address: a byte in the midst of one would damage it.
//!
//! In: the address, the program's own bytes. Out: yes, no, or that it cannot be told. The unwind
//! index says where the procedure begins (`.eh_frame_hdr`, LSB 10.6.2); from there on instructions
//! are counted off. Code without that index gets a debug register instead of a byte.

use super::super::image::{Loaded, Segment, loaded};
use super::super::memory;
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use iced_x86::{Decoder, DecoderOptions};
use object::elf::PT_GNU_EH_FRAME;

/// What is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// One begins there.
    Begins,
    /// It is within one.
    Within,
    /// Nothing tells.
    Unknown,
}

/// A table of pairs of four-byte numbers relative to the index itself: how all linkers write it.
const ENCODINGS: [u8; 2] = [0x03, 0x3b];
const HEAD: usize = 12;
const ROW: usize = 8;
/// The longest procedure that is counted off.
const LONGEST: u64 = 1 << 20;

/// Takes bytes out of code, at an address, that are not the program's.
pub type Cleaner<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), Trouble> + 'a;

/// Looks; `own` takes bytes that are not the program's out of what was read.
pub fn boundary(subject: &Subject, address: u64, own: &Cleaner<'_>) -> Result<Boundary, Trouble> {
    let images = loaded(subject)?;
    let image = images.iter().find(|it| it.range.contains(&address));
    let Some(start) = image.and_then(|image| procedure(subject, image, address)) else {
        return Ok(Boundary::Unknown);
    };
    if address - start > LONGEST {
        return Ok(Boundary::Unknown);
    }
    let mut bytes = memory::read(subject, start, address - start)?;
    own(start, &mut bytes)?;
    Ok(counted_off(&bytes, start, address))
}

/// Whether the instructions before the address fill the bytes exactly.
fn counted_off(bytes: &[u8], start: u64, address: u64) -> Boundary {
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    while decoder.can_decode() {
        if decoder.decode().is_invalid() {
            // The last one is cut off where the address lies within it.
            return Boundary::Within;
        }
    }
    if decoder.ip() == address { Boundary::Begins } else { Boundary::Within }
}

/// Where the procedure begins that an address is in.
fn procedure(subject: &Subject, image: &Loaded, address: u64) -> Option<u64> {
    let index: &Segment = image.segments.iter().find(|it| it.kind == PT_GNU_EH_FRAME)?;
    let bytes = memory::read(subject, index.address, index.in_memory).ok()?;
    first_of(&bytes, index.address, address)
}

/// The last beginning in the table that is not behind the address.
fn first_of(index: &[u8], at: u64, address: u64) -> Option<u64> {
    let head = index.first_chunk::<HEAD>()?;
    if head[2..4] != ENCODINGS {
        return None;
    }
    let rows = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    let table = index.get(HEAD..HEAD + usize::try_from(rows).ok()?.checked_mul(ROW)?)?;
    let begins = |row: &[u8]| {
        let offset = row.first_chunk().map_or(0, |it| i32::from_le_bytes(*it));
        at.wrapping_add_signed(i64::from(offset))
    };
    let rows: Vec<&[u8]> = table.chunks_exact(ROW).collect();
    let behind = rows.partition_point(|row| begins(row) <= address);
    rows.get(behind.checked_sub(1)?).map(|row| begins(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mov rax,[rdi]; add rax,1; ret.
    const CODE: [u8; 8] = [0x48, 0x8b, 0x07, 0x48, 0x83, 0xc0, 0x01, 0xc3];

    #[test]
    fn instructions_begin_where_those_before_end() {
        let at = |bytes: usize| counted_off(&CODE[..bytes], 0x1000, 0x1000 + bytes as u64);
        for begins in [0, 3, 7, 8] {
            assert_eq!(at(begins), Boundary::Begins, "{begins}");
        }
        for within in [1, 2, 4, 5, 6] {
            assert_eq!(at(within), Boundary::Within, "{within}");
        }
    }

    #[test]
    fn the_index_tells_the_procedure() {
        let mut index = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 2, 0, 0, 0];
        for offset in [-0x100_i32, 0, 0x40, 0] {
            index.extend(offset.to_le_bytes());
        }
        assert_eq!(first_of(&index, 0x2000, 0x1eff), None);
        assert_eq!(first_of(&index, 0x2000, 0x1f00), Some(0x1f00));
        assert_eq!(first_of(&index, 0x2000, 0x203f), Some(0x1f00));
        assert_eq!(first_of(&index, 0x2000, 0x2050), Some(0x2040));
        index[8] = 3;
        assert_eq!(first_of(&index, 0x2000, 0x2050), None, "the table is cut off");
        assert_eq!(first_of(&index[..8], 0x2000, 0x2050), None);
    }
}
