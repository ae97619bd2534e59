//! The registers of x86-64 as gdb numbers them, and as Linux keeps them.
//!
//! ```text
//!  user_regs_struct, 216 bytes ---\
//!  xsave area: fxsave, header, AVX ---> one image in the order of the target description
//! ```
//!
//! In: both images of the system. Out: gdb's, or parts of it; and back. gdb's `orig_rax` is among
//! them: it decides whether a system call that a stop has interrupted is restarted, so gdb must be
//! able to write what it has read.

use gdbstub::arch::{Arch, RegId, Registers};
use std::num::NonZeroUsize;

/// x86-64 as Linux has it, with AVX where the processor has that.
#[derive(Debug)]
pub enum X86_64Linux {}

/// The registers of a thread in gdb's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GdbRegisters(pub Vec<u8>);

/// A register by gdb's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterNumber(pub usize);

/// Where a register is in the images of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A word of `user_regs_struct`, by its index, of which gdb has this many bytes.
    Word(usize, usize),
    /// Bytes of the `xsave` area at an offset; gdb has more of them, which are zero.
    Float(usize, usize, usize),
    /// The tag word of the x87 registers, which `fxsave` has in another form.
    Tags,
}

/// Bytes of the `xsave` area up to the upper halves of the AVX registers.
pub const FLOAT_BYTES: usize = AVX + 16 * 16;
const FXSAVE: usize = 512;
const AVX: usize = 576;
/// Offset of the components that the system saves, XCR0, in the bytes that `fxsave` leaves to
/// software (arch/x86/include/asm/user.h, `struct user_xstateregs`).
const XCR0: usize = 464;
/// Offset of the components in use.
const XSTATE_BV: usize = 512;
const AVX_BIT: u8 = 0b100;
const TAGS: usize = 4;
const ST: usize = 32;
const XMM: usize = 160;
/// Indices in `user_regs_struct` of rax to r15 in gdb's order, rip, the flags, the segments.
const WORDS: [usize; 16] = [10, 5, 11, 12, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0];
const RIP: usize = 16;
const FLAGS: usize = 18;
const SEGMENTS: [usize; 6] = [17, 20, 23, 24, 25, 26];
/// fctrl, fstat, the tags, fiseg, fioff, foseg, fooff, fop: offsets and bytes in `fxsave`.
const CONTROLS: [(usize, usize); 8] =
    [(0, 2), (2, 2), (0, 0), (12, 2), (8, 4), (20, 2), (16, 4), (6, 2)];
const MXCSR: usize = 24;
const ORIG_RAX: usize = 15;
const BASES: [usize; 2] = [21, 22];

/// gdb's number of the program counter.
pub const PC: RegisterNumber = RegisterNumber(16);
/// gdb's number of the base of fs, which is the address of `struct pthread`.
pub const FS_BASE: RegisterNumber = RegisterNumber(58);
const BEFORE_AVX: usize = 60;
const WITH_AVX: usize = BEFORE_AVX + 16;

impl RegisterNumber {
    /// The register's place in the images of the system, and its bytes for gdb.
    fn source(self) -> Option<(Source, usize)> {
        let number = self.0;
        Some(match number {
            0..16 => (Source::Word(WORDS[number], 8), 8),
            16 => (Source::Word(RIP, 8), 8),
            17 => (Source::Word(FLAGS, 4), 4),
            18..24 => (Source::Word(SEGMENTS[number - 18], 4), 4),
            24..32 => (Source::Float(ST + 16 * (number - 24), 10, 10), 10),
            34 => (Source::Tags, 4),
            32..40 => {
                let (at, bytes) = CONTROLS[number - 32];
                (Source::Float(at, bytes, 4), 4)
            }
            40..56 => (Source::Float(XMM + 16 * (number - 40), 16, 16), 16),
            56 => (Source::Float(MXCSR, 4, 4), 4),
            57 => (Source::Word(ORIG_RAX, 8), 8),
            58 | 59 => (Source::Word(BASES[number - 58], 8), 8),
            BEFORE_AVX..WITH_AVX => (Source::Float(AVX + 16 * (number - BEFORE_AVX), 16, 16), 16),
            _ => return None,
        })
    }

    /// Bytes of the register for gdb.
    pub fn bytes(self) -> Option<usize> {
        self.source().map(|it| it.1)
    }
}

/// The two images of a stopped thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// `user_regs_struct`.
    pub general: Vec<u8>,
    /// The `xsave` area, or its beginning.
    pub float: Vec<u8>,
}

impl Images {
    /// Whether the thread has AVX registers.
    pub fn has_avx(&self) -> bool {
        self.float.len() >= FLOAT_BYTES && self.float[XCR0] & AVX_BIT != 0
    }

    /// All registers in gdb's order.
    pub fn to_gdb(&self) -> GdbRegisters {
        GdbRegisters(self.numbers().flat_map(|it| self.get(it).unwrap_or_default()).collect())
    }

    /// Replaces all registers by gdb's; whether there were enough bytes.
    pub fn set_from_gdb(&mut self, registers: &GdbRegisters) -> bool {
        let mut rest = registers.0.as_slice();
        for number in self.numbers() {
            let bytes = number.bytes().unwrap_or(0);
            let Some((own, left)) = rest.split_at_checked(bytes) else { return false };
            let _known = self.put(number, own);
            rest = left;
        }
        true
    }

    /// The bytes of one register for gdb; none, if the thread does not have it.
    pub fn get(&self, number: RegisterNumber) -> Option<Vec<u8>> {
        let (source, bytes) = number.source()?;
        match source {
            Source::Word(index, kept) => {
                self.general.get(index * 8..index * 8 + kept).map(<[u8]>::to_vec)
            }
            Source::Float(at, kept, _) => {
                let mut own = self.float.get(at..at + kept)?.to_vec();
                own.resize(bytes, 0);
                Some(own)
            }
            Source::Tags => Some(u32::from(self.tags()?).to_le_bytes().to_vec()),
        }
    }

    /// Replaces one register; whether the thread has it and the number of bytes fits.
    pub fn put(&mut self, number: RegisterNumber, bytes: &[u8]) -> bool {
        let Some((source, _)) = number.source().filter(|it| it.1 == bytes.len()) else {
            return false;
        };
        let place = match source {
            Source::Word(index, kept) => {
                // The upper half of a register that gdb has as 32 bits is zero.
                let word = self.general.get_mut(index * 8..index * 8 + 8);
                word.map(|word| {
                    word[kept..].fill(0);
                    &mut word[..kept]
                })
            }
            Source::Float(at, kept, _) => self.float.get_mut(at..at + kept),
            Source::Tags => {
                let tags = u16::from_le_bytes([bytes[0], bytes[1]]);
                return self.set_tags(tags);
            }
        };
        place.map(|place| place.copy_from_slice(&bytes[..place.len()])).is_some()
    }

    /// A register as a number, if it has at most eight bytes.
    pub fn value(&self, number: RegisterNumber) -> Option<u64> {
        let mut own = self.get(number)?;
        own.resize(8, 0);
        own.try_into().ok().map(u64::from_le_bytes)
    }

    /// Marks all components that gdb writes as in use: otherwise the system takes their initial
    /// values instead of those in the image.
    pub fn use_floats(&mut self) {
        let components = if self.has_avx() { 0b111 } else { 0b011 };
        if let Some(byte) = self.float.get_mut(XSTATE_BV) {
            *byte |= components;
        }
    }

    fn numbers(&self) -> impl Iterator<Item = RegisterNumber> + use<> {
        (0..if self.has_avx() { WITH_AVX } else { BEFORE_AVX }).map(RegisterNumber)
    }

    /// The tag word, two bits a register: 0 valid, 1 zero, 2 special, 3 empty. `fxsave` has one
    /// bit, whether it is not empty (Intel SDM volume 1, 10.5.1.1).
    fn tags(&self) -> Option<u16> {
        let (used, top) = (*self.float.get(TAGS)?, usize::from(*self.float.get(3)? >> 3 & 7));
        let tag = |register: usize| {
            if used >> register & 1 == 0 {
                return 3;
            }
            let at = ST + 16 * ((register + 8 - top) % 8);
            let own = self.float.get(at..at + 10).unwrap_or(&[0; 10]);
            let exponent = u16::from_le_bytes([own[8], own[9]]) & 0x7fff;
            let is_zero = own[..8].iter().all(|byte| *byte == 0);
            match exponent {
                0x7fff => 2,
                0 if is_zero => 1,
                0 => 2,
                _ if own[7] >> 7 == 1 => 0,
                _ => 2,
            }
        };
        Some((0..8).fold(0, |word, register| word | tag(register) << (2 * register)))
    }

    fn set_tags(&mut self, tags: u16) -> bool {
        let used = (0..8).filter(|register| tags >> (2 * register) & 3 != 3);
        let used = used.fold(0, |byte, register| byte | 1 << register);
        self.float.get_mut(TAGS).map(|byte| *byte = used).is_some()
    }
}

impl Registers for GdbRegisters {
    type ProgramCounter = u64;

    fn pc(&self) -> u64 {
        let own = self.0.get(128..136).and_then(|it| it.try_into().ok());
        own.map_or(0, u64::from_le_bytes)
    }

    fn gdb_serialize(&self, write_byte: impl FnMut(Option<u8>)) {
        self.0.iter().copied().map(Some).for_each(write_byte);
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.0 = bytes.to_vec();
        Ok(())
    }
}

impl RegId for RegisterNumber {
    fn from_raw_id(id: usize) -> Option<(Self, Option<NonZeroUsize>)> {
        let number = Self(id);
        Some((number, NonZeroUsize::new(number.bytes()?)))
    }

    fn to_raw_id(&self) -> Option<usize> {
        Some(self.0)
    }
}

impl Arch for X86_64Linux {
    type Usize = u64;
    type Registers = GdbRegisters;
    type BreakpointKind = usize;
    type RegId = RegisterNumber;
}

const _: () = assert!(FXSAVE == XSTATE_BV);

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of `user_regs_struct`.
    const GENERAL_BYTES: usize = 27 * 8;

    fn images() -> Images {
        let byte = |it: usize| u8::try_from(it % 251).unwrap();
        let mut float: Vec<u8> = (0..FLOAT_BYTES).map(byte).collect();
        float[XCR0] = 7;
        Images { general: (0..GENERAL_BYTES).map(byte).collect(), float }
    }

    #[test]
    fn registers_survive_gdb_and_back() {
        let before = images();
        let mut after = before.clone();
        let registers = before.to_gdb();
        assert_eq!(registers.0.len(), 16 * 8 + 8 + 7 * 4 + 8 * 10 + 8 * 4 + 16 * 16 + 4 + 24 + 256);
        assert!(after.set_from_gdb(&registers));
        for number in (0..WITH_AVX).map(RegisterNumber) {
            assert_eq!(after.get(number), before.get(number), "{number:?}");
        }
    }

    #[test]
    fn the_number_of_the_system_call_is_a_register() {
        let mut images = images();
        assert!(images.put(RegisterNumber(57), &(-1_i64).to_le_bytes()));
        assert_eq!(images.value(RegisterNumber(57)), Some(u64::MAX));
        assert_eq!(&images.general[ORIG_RAX * 8..ORIG_RAX * 8 + 8], &[0xff; 8]);
    }

    #[test]
    fn an_empty_stack_of_the_x87_has_empty_tags() {
        let mut images = images();
        images.float[..32].fill(0);
        assert_eq!(images.tags(), Some(0xffff));
        // One register in use, with the value 1.0.
        images.float[TAGS] = 1 << 7;
        images.float[3] = 7 << 3;
        images.float[ST..ST + 10].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f]);
        assert_eq!(images.tags(), Some(0x3fff));
        assert!(images.set_tags(0x3fff));
        assert_eq!(images.float[TAGS], 1 << 7);
    }

    #[test]
    fn a_processor_without_avx_has_fewer_registers() {
        let mut images = images();
        images.float.truncate(FXSAVE);
        assert!(!images.has_avx());
        assert_eq!(images.to_gdb().0.len(), 16 * 8 + 8 + 7 * 4 + 8 * 10 + 8 * 4 + 16 * 16 + 4 + 24);
        assert_eq!(images.get(RegisterNumber(60)), None);
    }
}
