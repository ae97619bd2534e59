//! The stack of a thread that stands still: who called whom.
//!
//! In: its registers, its memory. Out: frames, innermost first. By the unwind tables of each image
//! (`.eh_frame`, with its index), by frame pointers where there is none. A table is read when the
//! first frame of its image is met. The walk ends where the stack does, or cannot be read further.

use super::act::{Frame, Names};
use super::image::{Loaded, loaded};
use super::machine::Registers;
use super::memory;
use super::subject::Subject;
use super::trouble::Trouble;
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use object::elf::PT_GNU_EH_FRAME;
use std::ops::Range;

/// Most frames that are told: a recursion without end must not fill a reply.
pub const MOST: u16 = 4096;
/// How much of a stack is read at a time.
const CHUNK: u64 = 4096;
/// The head of the index: a pointer relative to itself, in four bytes (`DW_EH_PE_pcrel|sdata4`).
const RELATIVE: u8 = 0x1b;

/// The frames of a thread.
pub fn backtrace(
    subject: &Subject,
    registers: &Registers,
    most: u16,
) -> Result<Vec<Frame>, Trouble> {
    let mut walk = Walk::new(subject, registers)?;
    let mut frames = Vec::new();
    while frames.len() < usize::from(most.min(MOST)) {
        let pc = walk.pc.address();
        match walk.up() {
            Some(frame) => frames.push(Frame { pc, frame, name: None }),
            None => {
                frames.push(Frame { pc, frame: walk.registers.sp(), name: None });
                break;
            }
        }
    }
    Ok(frames)
}

/// Where the current procedure returns to, and the stack pointer there.
pub fn caller(subject: &Subject, registers: &Registers) -> Result<(u64, u64), Trouble> {
    let mut walk = Walk::new(subject, registers)?;
    let frame = walk.up();
    frame.map(|frame| (walk.pc.address(), frame)).ok_or_else(|| {
        Trouble::state("nobody called this procedure, or its stack cannot be unwound")
    })
}

/// Gives frames the names of their procedures, where the files have symbols.
pub fn name(subject: &Subject, frames: &mut [Frame]) {
    // A return address may be the first of the next procedure.
    let first = |place: usize| u64::from(place != 0);
    let places = frames.iter().enumerate();
    let addresses: Vec<u64> =
        places.map(|(place, it)| it.pc.saturating_sub(first(place))).collect();
    let mut process = Process::new(subject.id.pid.0.into());
    // `map_files` needs a capability that a user does not have.
    process.map_files = false;
    process.debug_syms = false;
    let (symbolizer, source) = (Symbolizer::new(), Source::Process(process));
    let names = symbolizer.symbolize(&source, Input::AbsAddr(&addresses));
    // Without names the addresses still stand.
    for (frame, found) in frames.iter_mut().zip(names.into_iter().flatten()) {
        if let Symbolized::Sym(symbol) = found {
            frame.name = Some(symbol.name.into_owned());
        }
    }
}

/// The frames, with names if they are wanted.
pub fn told(subject: &Subject, mut frames: Vec<Frame>, names: Names) -> Vec<Frame> {
    if names == Names::With {
        name(subject, &mut frames);
    }
    frames
}

/// A walk up a stack.
struct Walk<'a> {
    subject: &'a Subject,
    images: Vec<Loaded>,
    known: Vec<u64>,
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
    registers: UnwindRegsX86_64,
    pc: FrameAddress,
    chunk: (u64, Vec<u8>),
}

impl<'a> Walk<'a> {
    fn new(subject: &'a Subject, registers: &Registers) -> Result<Self, Trouble> {
        let (pc, sp, fp) = (registers.pc(), registers.sp(), registers.fp());
        Ok(Self {
            subject,
            images: loaded(subject)?,
            known: Vec::new(),
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            registers: UnwindRegsX86_64::new(pc, sp, fp),
            pc: FrameAddress::from_instruction_pointer(pc),
            chunk: (0, Vec::new()),
        })
    }

    /// To the caller; gives the canonical address of the frame that was left.
    fn up(&mut self) -> Option<u64> {
        self.learn(self.pc.address_for_lookup());
        let (subject, chunk) = (self.subject, &mut self.chunk);
        let mut read = |address: u64| word(subject, chunk, address).ok_or(());
        let up =
            self.unwinder.unwind_frame(self.pc, &mut self.registers, &mut self.cache, &mut read);
        self.pc = FrameAddress::from_return_address(up.ok()??)?;
        Some(self.registers.sp())
    }

    /// Reads the tables of the image that an address is in.
    fn learn(&mut self, address: u64) {
        let Some(image) = self.images.iter().find(|it| it.range.contains(&address)) else { return };
        if self.known.contains(&image.range.start) {
            return;
        }
        self.known.push(image.range.start);
        if let Some(tables) = tables(self.subject, image) {
            let name = String::from_utf8_lossy(&image.path).into_owned();
            self.unwinder.add_module(Module::new(name, image.range.clone(), image.bias, tables));
        }
    }
}

/// The unwind tables of an image. Their addresses are those of the file.
fn tables(subject: &Subject, image: &Loaded) -> Option<ExplicitModuleSectionInfo<Vec<u8>>> {
    let index = image.segments.iter().find(|it| it.kind == PT_GNU_EH_FRAME)?;
    let head = memory::read(subject, index.address, index.in_memory).ok()?;
    let offset = head.get(4..8).filter(|_| head[1] == RELATIVE)?;
    let offset = i32::from_le_bytes(offset.try_into().ok()?);
    let start = (index.address + 4).wrapping_add_signed(i64::from(offset));
    let within = |it: &&super::image::Segment| {
        it.kind == object::elf::PT_LOAD && (it.address..it.address + it.in_file).contains(&start)
    };
    // Its length stands in no program header; it ends before its segment does.
    let segment = image.segments.iter().find(within)?;
    let length = (segment.address + segment.in_file - start).min(memory::MOST);
    let table = memory::read(subject, start, length).ok()?;
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

/// A word of the stack; it is read in larger pieces.
fn word(subject: &Subject, chunk: &mut (u64, Vec<u8>), address: u64) -> Option<u64> {
    let within = |chunk: &(u64, Vec<u8>)| {
        let from = usize::try_from(address.checked_sub(chunk.0)?).ok()?;
        let bytes = chunk.1.get(from..from.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    within(chunk).or_else(|| {
        let bytes = match memory::read(subject, address, CHUNK) {
            Ok(bytes) => bytes,
            Err(Trouble::Fault { done, .. }) => done,
            Err(_) => return None,
        };
        *chunk = (address, bytes);
        within(chunk)
    })
}
