//! Walks up the stacks of a process.
//!
//! In: the registers of a stopped thread, and the words of its stack: of its memory, or of a copy.
//! Out: its frames. The tables of an image are read when a frame is in it.

use super::tables::TableCache;
use crate::loaded_elf::LoadedElf;
use crate::{StackFrame, machine::Registers, process_ref::ProcessRef};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Unwinder as _};
use std::sync::Arc;

/// Most frames returned, so that an endless recursion does not fill a reply.
pub const MAX_FRAMES: u16 = 4096;

/// Reads a word of a stack; `None` where it is not readable.
pub type ReadWord<'m> = dyn FnMut(u64) -> Option<u64> + 'm;

/// A walker of the stacks of one process.
pub struct StackWalker<'a> {
    process: &'a ProcessRef,
    tables: &'a mut TableCache,
    images: &'a [LoadedElf],
    /// Starts of the images whose tables the unwinder has, or which have none.
    known: Vec<u64>,
    unwinder: UnwinderX86_64<Arc<[u8]>>,
    cache: CacheX86_64,
}

/// A frame on the way up: its registers.
pub struct FramePosition {
    registers: UnwindRegsX86_64,
    pc: FrameAddress,
}

/// The frames of a stack.
pub struct Walked {
    /// The frames, innermost first.
    pub frames: Vec<StackFrame>,
    /// Whether the last one is the end of the stack: false if it was not unwound further.
    pub is_whole: bool,
}

impl FramePosition {
    /// The innermost frame.
    pub fn new(registers: &Registers) -> Self {
        let (pc, sp, fp) = (registers.pc(), registers.sp(), registers.fp());
        Self {
            registers: UnwindRegsX86_64::new(pc, sp, fp),
            pc: FrameAddress::from_instruction_pointer(pc),
        }
    }

    /// Its program counter: of a caller, the return address.
    pub fn pc(&self) -> u64 {
        self.pc.address()
    }
}

impl<'a> StackWalker<'a> {
    /// A walker that finds code in these images of the process.
    pub fn new(
        process: &'a ProcessRef,
        images: &'a [LoadedElf],
        tables: &'a mut TableCache,
    ) -> Self {
        Self {
            process,
            tables,
            images,
            known: Vec::new(),
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
        }
    }

    /// The frames of a thread, without names, at most `limit`.
    pub fn frames(&mut self, registers: &Registers, limit: u16, read: &mut ReadWord<'_>) -> Walked {
        let mut position = FramePosition::new(registers);
        let mut frames = Vec::new();
        while frames.len() < usize::from(limit.min(MAX_FRAMES)) {
            let (pc, sp) = (position.pc(), position.registers.sp());
            let step = self.step(&mut position, read);
            let cfa = if let Above::Caller(cfa) = step { cfa } else { sp };
            frames.push(StackFrame { pc, cfa, name: None });
            match step {
                Above::Caller(_) => {}
                Above::End => return Walked { frames, is_whole: true },
                Above::Unknown => break,
            }
        }
        Walked { frames, is_whole: false }
    }

    /// Moves to the caller; returns the canonical frame address of the frame that was left.
    pub fn up(&mut self, position: &mut FramePosition, read: &mut ReadWord<'_>) -> Option<u64> {
        match self.step(position, read) {
            Above::Caller(cfa) => Some(cfa),
            Above::End | Above::Unknown => None,
        }
    }

    fn step(&mut self, position: &mut FramePosition, read: &mut ReadWord<'_>) -> Above {
        self.load_tables(position.pc.address_for_lookup());
        let mut read = |address: u64| read(address).ok_or(());
        let (registers, cache) = (&mut position.registers, &mut self.cache);
        let up = self.unwinder.unwind_frame(position.pc, registers, cache, &mut read);
        match up {
            Ok(Some(address)) => match FrameAddress::from_return_address(address) {
                Some(pc) => {
                    position.pc = pc;
                    Above::Caller(position.registers.sp())
                }
                None => Above::End,
            },
            Ok(None) => Above::End,
            Err(_) => Above::Unknown,
        }
    }

    /// Loads the unwind tables of the image that contains an address.
    fn load_tables(&mut self, address: u64) {
        let Some(image) = self.images.iter().find(|it| it.range.contains(&address)) else { return };
        if self.known.contains(&image.range.start) {
            return;
        }
        self.known.push(image.range.start);
        if let Some(module) = self.tables.module(self.process, image) {
            self.unwinder.add_module(module);
        }
    }
}

/// What is above a frame.
enum Above {
    /// Its caller; the canonical frame address of the frame.
    Caller(u64),
    /// Nothing: it is the outermost.
    End,
    /// It cannot be unwound.
    Unknown,
}

/// The word at an address, of bytes that begin at another.
pub fn word_in(start: u64, bytes: &[u8], address: u64) -> Option<u64> {
    let from = usize::try_from(address.checked_sub(start)?).ok()?;
    let bytes = bytes.get(from..from.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}
