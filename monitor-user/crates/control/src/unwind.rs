//! The call stack of a stopped thread.
//!
//! In: its registers and memory. Out: frames, innermost first. Uses the unwind tables of each image
//! (`.eh_frame` and its index), or frame pointers if there are none. Tables are read on first use.
//! The walk ends at the end of the stack or where it cannot be unwound further.

use super::loaded_elf::{LoadedElf, loaded_elfs};
use super::{
    ControlError, FrameNames, StackFrame, machine::Registers, memory, process_ref::ProcessRef,
};
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use object::elf::PT_GNU_EH_FRAME;
use std::ops::Range;

/// Most frames returned, so that an endless recursion does not fill a reply.
pub const MAX_FRAMES: u16 = 4096;
/// Bytes of the stack read at a time.
const CHUNK: u64 = 4096;
/// Encoding of the pointer in the index header: `DW_EH_PE_pcrel|sdata4`.
const RELATIVE: u8 = 0x1b;

/// The frames of a stopped thread, without names.
pub fn backtrace(
    process: &ProcessRef,
    registers: &Registers,
    limit: u16,
) -> Result<Vec<StackFrame>, ControlError> {
    let mut walk = Walk::new(process, registers)?;
    let mut frames = Vec::new();
    while frames.len() < usize::from(limit.min(MAX_FRAMES)) {
        let pc = walk.pc.address();
        match walk.up() {
            Some(cfa) => frames.push(StackFrame { pc, cfa, name: None }),
            None => {
                frames.push(StackFrame { pc, cfa: walk.registers.sp(), name: None });
                break;
            }
        }
    }
    Ok(frames)
}

/// The return address of the current procedure, and the stack pointer after its return.
pub fn caller(process: &ProcessRef, registers: &Registers) -> Result<(u64, u64), ControlError> {
    let mut walk = Walk::new(process, registers)?;
    let frame = walk.up();
    frame.map(|frame| (walk.pc.address(), frame)).ok_or_else(|| {
        ControlError::wrong_state(
            "the caller of this procedure is unknown: its stack cannot be unwound",
        )
    })
}

/// Fills in the names of procedures, where the files have symbols.
pub fn add_names(process: &ProcessRef, frames: &mut [StackFrame]) {
    // A return address may be the first address of the next procedure.
    let first = |place: usize| u64::from(place != 0);
    let places = frames.iter().enumerate();
    let addresses: Vec<u64> =
        places.map(|(place, it)| it.pc.saturating_sub(first(place))).collect();
    let mut process = Process::new(process.id.pid.0.into());
    // `map_files` needs a capability that ordinary users lack.
    process.map_files = false;
    process.debug_syms = false;
    let (symbolizer, source) = (Symbolizer::new(), Source::Process(process));
    let names = symbolizer.symbolize(&source, Input::AbsAddr(&addresses));
    // Without names the frames still have their addresses.
    for (frame, found) in frames.iter_mut().zip(names.into_iter().flatten()) {
        if let Symbolized::Sym(symbol) = found {
            frame.name = Some(symbol.name.into_owned());
        }
    }
}

/// The frames, with names if requested.
pub fn with_names(
    process: &ProcessRef,
    mut frames: Vec<StackFrame>,
    names: FrameNames,
) -> Vec<StackFrame> {
    if names == FrameNames::With {
        add_names(process, &mut frames);
    }
    frames
}

/// State of a walk up a stack.
struct Walk<'a> {
    process: &'a ProcessRef,
    images: Vec<LoadedElf>,
    known: Vec<u64>,
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
    registers: UnwindRegsX86_64,
    pc: FrameAddress,
    chunk: (u64, Vec<u8>),
}

impl<'a> Walk<'a> {
    fn new(process: &'a ProcessRef, registers: &Registers) -> Result<Self, ControlError> {
        let (pc, sp, fp) = (registers.pc(), registers.sp(), registers.fp());
        Ok(Self {
            process,
            images: loaded_elfs(process)?,
            known: Vec::new(),
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            registers: UnwindRegsX86_64::new(pc, sp, fp),
            pc: FrameAddress::from_instruction_pointer(pc),
            chunk: (0, Vec::new()),
        })
    }

    /// Moves to the caller; returns the canonical frame address of the frame that was left.
    fn up(&mut self) -> Option<u64> {
        self.load_tables(self.pc.address_for_lookup());
        let (process, chunk) = (self.process, &mut self.chunk);
        let mut read = |address: u64| word(process, chunk, address).ok_or(());
        let up =
            self.unwinder.unwind_frame(self.pc, &mut self.registers, &mut self.cache, &mut read);
        self.pc = FrameAddress::from_return_address(up.ok()??)?;
        Some(self.registers.sp())
    }

    /// Loads the unwind tables of the image that contains an address.
    fn load_tables(&mut self, address: u64) {
        let Some(image) = self.images.iter().find(|it| it.range.contains(&address)) else { return };
        if self.known.contains(&image.range.start) {
            return;
        }
        self.known.push(image.range.start);
        if let Some(tables) = tables(self.process, image) {
            let name = String::from_utf8_lossy(&image.path).into_owned();
            self.unwinder.add_module(Module::new(name, image.range.clone(), image.bias, tables));
        }
    }
}

/// The unwind tables of an image, with addresses in the file.
fn tables(process: &ProcessRef, image: &LoadedElf) -> Option<ExplicitModuleSectionInfo<Vec<u8>>> {
    let index = image.segments.iter().find(|it| it.kind == PT_GNU_EH_FRAME)?;
    let head = memory::read(process, index.address, index.in_memory).ok()?;
    let offset = head.get(4..8).filter(|_| head[1] == RELATIVE)?;
    let offset = i32::from_le_bytes(offset.try_into().ok()?);
    let start = (index.address + 4).wrapping_add_signed(i64::from(offset));
    let within = |it: &&super::loaded_elf::Segment| {
        it.kind == object::elf::PT_LOAD && (it.address..it.address + it.in_file).contains(&start)
    };
    // No program header gives the length of `.eh_frame`; the end of its segment is an upper bound.
    let segment = image.segments.iter().find(within)?;
    let length = (segment.address + segment.in_file - start).min(memory::MAX_BYTES);
    let table = memory::read(process, start, length).ok()?;
    let in_file = |from: u64, length: u64| -> Range<u64> {
        let from = from.wrapping_sub(image.bias);
        from..from + length
    };
    Some(ExplicitModuleSectionInfo {
        eh_frame_svma: Some(in_file(start, length)),
        eh_frame: Some(table),
        eh_frame_hdr_svma: Some(in_file(index.address, index.in_memory)),
        eh_frame_hdr: Some(head),
        ..ExplicitModuleSectionInfo::default()
    })
}

/// A word of the stack, read through a cache of one chunk.
fn word(process: &ProcessRef, chunk: &mut (u64, Vec<u8>), address: u64) -> Option<u64> {
    let within = |chunk: &(u64, Vec<u8>)| {
        let from = usize::try_from(address.checked_sub(chunk.0)?).ok()?;
        let bytes = chunk.1.get(from..from.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    within(chunk).or_else(|| {
        let bytes = match memory::read(process, address, CHUNK) {
            Ok(bytes) => bytes,
            Err(ControlError::Fault { done, .. }) => done,
            Err(_) => return None,
        };
        *chunk = (address, bytes);
        within(chunk)
    })
}
