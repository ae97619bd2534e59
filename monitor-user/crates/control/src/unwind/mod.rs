//! The call stack of a stopped thread.
//!
//! In: its registers and memory. Out: frames, innermost first. Uses the unwind tables of each image
//! (`.eh_frame` and its index), or frame pointers if there are none. Tables are read on first use.
//! The walk ends at the end of the stack or where it cannot be unwound further.

pub mod tables;
mod walker;

use super::loaded_elf::loaded_elfs;
use super::{
    ControlError, FrameNames, StackFrame, machine::Registers, memory, process_ref::ProcessRef,
};
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use tables::TableCache;
pub use walker::{FramePosition, MAX_FRAMES, StackWalker, word_in};

/// Bytes of the stack read at a time.
const CHUNK: u64 = 4096;

/// The frames of a stopped thread, without names.
pub fn backtrace(
    process: &ProcessRef,
    registers: &Registers,
    limit: u16,
) -> Result<Vec<StackFrame>, ControlError> {
    let mut tables = TableCache::default();
    let images = loaded_elfs(process)?;
    let mut walker = StackWalker::new(process, &images, &mut tables);
    let mut memory = LiveMemory::new(process);
    Ok(walker.frames(registers, limit, &mut |address| memory.word(address)).frames)
}

/// The return address of the current procedure, and the stack pointer after its return.
pub fn caller(process: &ProcessRef, registers: &Registers) -> Result<(u64, u64), ControlError> {
    let mut tables = TableCache::default();
    let images = loaded_elfs(process)?;
    let mut walker = StackWalker::new(process, &images, &mut tables);
    let mut memory = LiveMemory::new(process);
    let mut position = FramePosition::new(registers);
    let frame = walker.up(&mut position, &mut |address| memory.word(address));
    frame.map(|frame| (position.pc(), frame)).ok_or_else(|| {
        ControlError::wrong_state(
            "the caller of this procedure is unknown: its stack cannot be unwound",
        )
    })
}

/// An address in the code of each frame: a return address may be the first address of the next
/// procedure.
pub fn code_addresses(frames: &[StackFrame]) -> Vec<u64> {
    let is_return = |place: usize| u64::from(place != 0);
    let places = frames.iter().enumerate();
    places.map(|(place, it)| it.pc.saturating_sub(is_return(place))).collect()
}

/// Fills in the names of procedures, where the files have symbols.
pub fn add_names(process: &ProcessRef, frames: &mut [StackFrame]) {
    let addresses = code_addresses(frames);
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

/// The frames, with names if requested: empty ones where the file has none, because a reply has the
/// same values for each frame.
pub fn with_names(
    process: &ProcessRef,
    mut frames: Vec<StackFrame>,
    names: FrameNames,
) -> Vec<StackFrame> {
    if names == FrameNames::With {
        add_names(process, &mut frames);
        for frame in &mut frames {
            let _name = frame.name.get_or_insert_default();
        }
    }
    frames
}

/// The memory of a stopped process, read through a cache of one chunk.
struct LiveMemory<'p> {
    process: &'p ProcessRef,
    start: u64,
    bytes: Vec<u8>,
}

impl<'p> LiveMemory<'p> {
    const fn new(process: &'p ProcessRef) -> Self {
        Self { process, start: 0, bytes: Vec::new() }
    }

    fn word(&mut self, address: u64) -> Option<u64> {
        word_in(self.start, &self.bytes, address).or_else(|| {
            self.bytes = match memory::read(self.process, address, CHUNK) {
                Ok(bytes) => bytes,
                Err(ControlError::Fault { done, .. }) => done,
                Err(_) => return None,
            };
            self.start = address;
            word_in(self.start, &self.bytes, address)
        })
    }
}
