//! Calls a procedure in a stopped thread, by the System V psABI of x86-64.
//!
//! In: the stopped thread, the arguments. Out: a thread about to enter the procedure, and its saved
//! state. The 128 bytes below the stack pointer may be in use (3.2.2, red zone), the stack is
//! aligned to 16 before the return address, and `al` is the number of vector registers.
//!
//! The saved state is on the stack of the thread, too, and the procedure returns to code that
//! restores the thread from there. So the thread runs on if its tracer is killed meanwhile.
//!
//! ```text
//!  return address | arguments without register | signal frame | byte arguments | red zone
//!  sp                                            sp + 8 + 512
//! ```

use super::return_code::{LENGTH, RESTORES, RESULT, TO_FRAME, return_code};
use super::signal_frame::{ALIGNMENT, SIGRETURN, SignalFrame};
use super::{Floats, Registers};
use crate::{CodePos, ControlError, memory, process_ref::ProcessRef};
use monitor_event::Argument;
use monitor_sys::ptrace::{self, CallStop};

const RED_ZONE: u64 = 128;
const INTEGERS: usize = 6;
const FLOATS: usize = 8;
/// DWARF number of xmm0, the register of floating point results.
const XMM0: u16 = 17;
/// Most bytes of arguments on the stack of the thread.
const MOST: usize = 64 << 10;
/// Signals raised by instructions; if blocked, they would kill the process:
/// ILL 4, TRAP 5, BUS 7, FPE 8, SEGV 11.
const OWN_SIGNALS: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10;

/// The state of a thread before the call.
#[derive(Clone, Debug)]
pub struct SavedThread {
    registers: Registers,
    floats: Floats,
    mask: u64,
    /// Where the thread is when the procedure has returned and it is about to restore itself.
    returned: CodePos,
}

/// The arguments, assigned to registers and stack.
struct CallLayout {
    integers: Vec<u64>,
    floats: Vec<f64>,
    /// Stack content, from the return address upward.
    stack: Vec<u8>,
    sp: u64,
}

/// Prepares a stopped thread to enter a procedure.
pub fn begin_call(
    process: &ProcessRef,
    tid: i32,
    procedure: u64,
    arguments: &[Argument],
) -> Result<SavedThread, ControlError> {
    if ptrace::read_regset(tid, ptrace::SHADOW_STACK_REGSET, &mut [0; 8]).is_ok() {
        let why = "the thread has a shadow stack, which rejects the return of an injected call";
        return Err(ControlError::Unsupported(why.into()));
    }
    let (mut registers, mut floats) = (Registers::read(tid)?, Floats::read(tid)?);
    if ptrace::call_stop(tid).is_ok_and(|it| it == Some(CallStop::Entry)) {
        // The thread makes the call when it is restored: now it makes that of the procedure.
        registers = registers.before_call();
    }
    let mask =
        ptrace::signal_mask(tid).map_err(|it| ControlError::from_io("reading its signals", &it))?;
    let frame = SignalFrame::new(&registers, &floats, mask)?;
    let back = return_code(process)?;
    let layout = layout(registers.sp(), back, frame, arguments)?;
    let returned = CodePos { pc: back + LENGTH, sp: layout.sp + 8 + TO_FRAME };
    let before = SavedThread { registers, floats: floats.clone(), mask, returned };
    memory::write(process, layout.sp, &layout.stack)?;
    registers.begin_call(procedure, layout.sp, &layout.integers, layout.floats.len() as u64);
    if !layout.floats.is_empty() {
        for (number, value) in (XMM0..).zip(&layout.floats) {
            floats.put(number, *value)?;
        }
        floats.write(tid)?;
    }
    // After the registers: the frame restores the signals as well.
    registers.write(tid).inspect_err(|_| _ = before.restore(tid))?;
    let set = ptrace::set_signal_mask(tid, !OWN_SIGNALS);
    set.map_err(|error| ControlError::from_io("blocking its signals", &error))
        .inspect_err(|_| _ = before.restore(tid))?;
    Ok(before)
}

impl SavedThread {
    /// Restores the thread.
    pub fn restore(&self, tid: i32) -> Result<(), ControlError> {
        let set = ptrace::set_signal_mask(tid, self.mask);
        set.map_err(|error| ControlError::from_io("unblocking its signals", &error))?;
        self.floats.write(tid)?;
        self.registers.write(tid)
    }

    /// What the procedure has returned in its integer and its floating point register, if the
    /// thread is at the system call with which it restores itself. It is set back to before that
    /// call, so it still restores itself if its tracer is killed now.
    pub fn take_result(
        &self,
        process: &ProcessRef,
        tid: i32,
    ) -> Result<Option<(u64, f64)>, ControlError> {
        let mut registers = Registers::read(tid)?;
        let pos = CodePos { pc: registers.pc(), sp: registers.sp() };
        if pos != self.returned || registers.system_call() != SIGRETURN {
            return Ok(None);
        }
        let integer = memory::word(process, pos.sp - TO_FRAME - RESULT)?;
        let float = Floats::read(tid)?.get(XMM0)?;
        registers.set_pc(pos.pc - LENGTH + RESTORES);
        registers.write(tid)?;
        Ok(Some((integer, float)))
    }
}

/// Below the red zone: byte arguments, the frame, arguments without register, the return address.
fn layout(
    sp: u64,
    back: u64,
    frame: SignalFrame,
    arguments: &[Argument],
) -> Result<CallLayout, ControlError> {
    let bytes: Vec<u8> = arguments.iter().flat_map(bytes_of).collect();
    let bytes_at = aligned_below(sp, RED_ZONE + bytes.len() as u64, 16)?;
    let (mut integers, mut floats, mut spilled) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = bytes_at;
    for argument in arguments {
        let word = match argument {
            Argument::Float(value) if floats.len() < FLOATS => {
                floats.push(*value);
                continue;
            }
            Argument::Float(value) => value.to_bits(),
            Argument::Integer(value) => *value,
            Argument::Bytes(_) => next,
        };
        let takes_register = !matches!(argument, Argument::Float(_)) && integers.len() < INTEGERS;
        if takes_register { &mut integers } else { &mut spilled }.push(word);
        next += bytes_of(argument).len() as u64;
    }
    if bytes.len() > MOST || spilled.len() as u64 * 8 > TO_FRAME {
        let why = format!("the arguments exceed {MOST} bytes, or {TO_FRAME} without the strings");
        return Err(ControlError::InvalidArgument(why));
    }
    let frame_at = aligned_below(bytes_at, frame.len(), ALIGNMENT)?;
    let sp = aligned_below(frame_at, TO_FRAME, 16)? - 8;
    let mut stack = back.to_le_bytes().to_vec();
    stack.extend(spilled.iter().flat_map(|word| word.to_le_bytes()));
    for (at, part) in [(frame_at, frame.at(frame_at)), (bytes_at, bytes)] {
        stack.resize(usize::try_from(at - sp).unwrap_or(0), 0);
        stack.extend(part);
    }
    Ok(CallLayout { integers, floats, stack, sp })
}

/// The bytes that an argument needs in memory.
fn bytes_of(argument: &Argument) -> Vec<u8> {
    match argument {
        Argument::Bytes(own) => [own.as_slice(), &[0]].concat(),
        _ => Vec::new(),
    }
}

/// The aligned address at least this many bytes below.
fn aligned_below(sp: u64, bytes: u64, alignment: u64) -> Result<u64, ControlError> {
    let at = sp.checked_sub(bytes).map(|it| it & !(alignment - 1)).filter(|it| *it > 16);
    at.ok_or_else(|| ControlError::wrong_state("the stack of the thread has no space for the call"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> SignalFrame {
        let registers = Registers::default();
        SignalFrame::new(&registers, &Floats::default(), 0).unwrap()
    }

    #[test]
    fn arguments_without_register_are_above_the_return_address() {
        let arguments: Vec<_> = (0..8).map(Argument::Integer).collect();
        let layout = layout(0x2000, 0xabc, frame(), &arguments).unwrap();
        assert_eq!(layout.integers, [0, 1, 2, 3, 4, 5]);
        assert_eq!((layout.sp + 8) % 16, 0);
        assert!(layout.sp + layout.stack.len() as u64 <= 0x2000 - RED_ZONE);
        let words = layout.stack.chunks(8).map(|it| u64::from(it[0]));
        assert_eq!(words.take(3).collect::<Vec<_>>(), [0xbc, 6, 7]);
        assert_eq!((layout.sp + 8 + TO_FRAME) % ALIGNMENT, 0);
    }

    #[test]
    fn byte_arguments_are_passed_by_address_and_zero_terminated() {
        let arguments =
            [Argument::Bytes(b"ab".to_vec()), Argument::Float(1.5), Argument::Bytes(b"c".to_vec())];
        let layout = layout(0x2000, 1, frame(), &arguments).unwrap();
        let text = |address: u64| {
            let from = usize::try_from(address - layout.sp).unwrap();
            layout.stack[from..].iter().copied().take_while(|it| *it != 0).collect::<Vec<_>>()
        };
        assert_eq!(
            layout.integers.iter().map(|it| text(*it)).collect::<Vec<_>>(),
            [&b"ab"[..], b"c"]
        );
        assert_eq!(layout.floats, [1.5]);
    }

    #[test]
    fn a_stack_without_space_and_arguments_without_end_are_refused() {
        assert!(layout(64, 1, frame(), &[]).is_err());
        let much = [Argument::Bytes(vec![1; MOST])];
        assert!(layout(1 << 40, 1, frame(), &much).is_err());
        let many = |n| layout(1 << 40, 1, frame(), &vec![Argument::Integer(1); n]);
        assert!(many(70).is_ok() && many(71).is_err());
    }
}
