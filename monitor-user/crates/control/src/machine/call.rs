//! Calls a procedure in a stopped thread, by the System V psABI of x86-64.
//!
//! In: the stopped thread, the arguments. Out: a thread about to enter the procedure, and its saved
//! state. The 128 bytes below the stack pointer may be in use (3.2.2, red zone), the stack is
//! aligned to 16 before the return address, and `al` is the number of vector registers.

use super::{Floats, Registers};
use crate::{ControlError, memory, process_ref::ProcessRef};
use monitor_event::Argument;
use monitor_sys::ptrace;

const RED_ZONE: u64 = 128;
const INTEGERS: usize = 6;
const FLOATS: usize = 8;
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
    /// The stack pointer after the procedure has returned.
    pub sp: u64,
}

/// The arguments, assigned to registers and stack.
struct CallLayout {
    integers: Vec<u64>,
    floats: Vec<f64>,
    /// Stack content, from the return address upward.
    stack: Vec<u8>,
    sp: u64,
}

/// Prepares a stopped thread to enter a procedure that returns to `back`.
pub fn begin_call(
    process: &ProcessRef,
    tid: i32,
    (procedure, back): (u64, u64),
    arguments: &[Argument],
) -> Result<SavedThread, ControlError> {
    if ptrace::read_regset(tid, ptrace::SHADOW_STACK_REGSET, &mut [0; 8]).is_ok() {
        let why = "the thread has a shadow stack, which rejects the return of an injected call";
        return Err(ControlError::Unsupported(why.into()));
    }
    let (mut registers, mut floats) = (Registers::read(tid)?, Floats::read(tid)?);
    let mask =
        ptrace::signal_mask(tid).map_err(|it| ControlError::from_io("reading its signals", &it))?;
    let layout = layout(registers.sp(), back, arguments)?;
    let sp = layout.sp + 8;
    let before = SavedThread { registers, floats: floats.clone(), mask, sp };
    memory::write(process, layout.sp, &layout.stack)?;
    for (number, value) in (17..).zip(&layout.floats) {
        floats.put(number, *value)?;
    }
    registers.begin_call(procedure, layout.sp, &layout.integers, layout.floats.len() as u64);
    let set = ptrace::set_signal_mask(tid, !OWN_SIGNALS);
    set.map_err(|error| ControlError::from_io("blocking its signals", &error))?;
    floats
        .write(tid)
        .and_then(|()| registers.write(tid))
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
}

/// Below the red zone: byte arguments, then arguments without register, then the return address.
fn layout(sp: u64, back: u64, arguments: &[Argument]) -> Result<CallLayout, ControlError> {
    let bytes: Vec<u8> = arguments.iter().flat_map(bytes_of).collect();
    let bytes_at = aligned_below(sp, RED_ZONE + bytes.len() as u64)?;
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
    let spilled_at = aligned_below(bytes_at, spilled.len() as u64 * 8)?;
    let mut stack = back.to_le_bytes().to_vec();
    stack.extend(spilled.iter().flat_map(|word| word.to_le_bytes()));
    stack.resize(usize::try_from(bytes_at - spilled_at).unwrap_or(0) + 8, 0);
    stack.extend(bytes);
    if stack.len() > MOST {
        return Err(ControlError::InvalidArgument(format!("the arguments exceed {MOST} bytes")));
    }
    Ok(CallLayout { integers, floats, stack, sp: spilled_at - 8 })
}

/// The bytes that an argument needs in memory.
fn bytes_of(argument: &Argument) -> Vec<u8> {
    match argument {
        Argument::Bytes(own) => [own.as_slice(), &[0]].concat(),
        _ => Vec::new(),
    }
}

/// The 16-byte aligned address this many bytes below.
fn aligned_below(sp: u64, bytes: u64) -> Result<u64, ControlError> {
    let at = sp.checked_sub(bytes).map(|it| it & !15).filter(|it| *it > 16);
    at.ok_or_else(|| ControlError::wrong_state("the stack of the thread has no space for the call"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_without_register_are_above_the_return_address() {
        let arguments: Vec<_> = (0..8).map(Argument::Integer).collect();
        let layout = layout(0x1000, 0xabc, &arguments).unwrap();
        assert_eq!(layout.integers, [0, 1, 2, 3, 4, 5]);
        assert_eq!((layout.sp + 8) % 16, 0);
        assert!(layout.sp + layout.stack.len() as u64 <= 0x1000 - RED_ZONE);
        let words: Vec<u64> = layout.stack.chunks(8).map(|it| u64::from(it[0])).collect();
        assert_eq!(words, [0xbc, 6, 7]);
    }

    #[test]
    fn byte_arguments_are_passed_by_address_and_zero_terminated() {
        let arguments =
            [Argument::Bytes(b"ab".to_vec()), Argument::Float(1.5), Argument::Bytes(b"c".to_vec())];
        let layout = layout(0x2000, 1, &arguments).unwrap();
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
    fn a_stack_without_space_is_refused() {
        assert!(layout(64, 1, &[]).is_err());
        assert!(layout(1 << 40, 1, &[Argument::Bytes(vec![1; MOST])]).is_err());
    }
}
