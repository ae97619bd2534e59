//! Calling a procedure in a stopped thread, by the System V psABI of x86-64.
//!
//! In: the thread as it stands, the arguments. Out: a thread that is about to begin the procedure,
//! and what it was before. The 128 bytes below the stack pointer may be in use (3.2.2, red zone),
//! the stack is aligned to 16 before the return address, `al` is the number of vector registers.

use super::super::memory;
use super::super::subject::Subject;
use super::super::trouble::Trouble;
use super::{Floats, Registers};
use monitor_event::thread::Argument;
use monitor_sys::trace;

const RED_ZONE: u64 = 128;
const INTEGERS: usize = 6;
const FLOATS: usize = 8;
/// Most bytes of arguments that are put on the stack of the thread.
const MOST: usize = 64 << 10;
/// Signals that an instruction makes itself; blocked, they would end the process:
/// ILL 4, TRAP 5, BUS 7, FPE 8, SEGV 11.
const OWN_SIGNALS: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10;

/// What a thread was before the call.
#[derive(Clone, Debug)]
pub struct Before {
    registers: Registers,
    floats: Floats,
    mask: u64,
    /// The stack pointer when the procedure has returned.
    pub sp: u64,
}

/// The arguments in their places.
struct Placed {
    integers: Vec<u64>,
    floats: Vec<f64>,
    /// From the return address upward.
    stack: Vec<u8>,
    sp: u64,
}

/// Makes a stopped thread begin a procedure, which returns to `back`.
pub fn begin(
    subject: &Subject,
    tid: i32,
    (procedure, back): (u64, u64),
    arguments: &[Argument],
) -> Result<Before, Trouble> {
    if trace::read_set(tid, trace::SHADOW, &mut [0; 8]).is_ok() {
        let why = "the thread has a shadow stack, which allows no return that was not called";
        return Err(Trouble::Unsupported(why.into()));
    }
    let (mut registers, mut floats) = (Registers::of(tid)?, Floats::of(tid)?);
    let mask = trace::signal_mask(tid).map_err(|it| Trouble::of("reading its signals", &it))?;
    let placed = place(registers.sp(), back, arguments)?;
    let sp = placed.sp + 8;
    let before = Before { registers, floats: floats.clone(), mask, sp };
    memory::write(subject, placed.sp, &placed.stack)?;
    for (number, value) in (17..).zip(&placed.floats) {
        floats.put(number, *value)?;
    }
    registers.begin(procedure, placed.sp, &placed.integers, placed.floats.len() as u64);
    let set = trace::set_signal_mask(tid, !OWN_SIGNALS);
    set.map_err(|error| Trouble::of("blocking its signals", &error))?;
    floats.set(tid).and_then(|()| registers.set(tid)).inspect_err(|_| _ = before.restore(tid))?;
    Ok(before)
}

impl Before {
    /// Makes the thread what it was.
    pub fn restore(&self, tid: i32) -> Result<(), Trouble> {
        let set = trace::set_signal_mask(tid, self.mask);
        set.map_err(|error| Trouble::of("unblocking its signals", &error))?;
        self.floats.set(tid)?;
        self.registers.set(tid)
    }
}

/// Bytes lowest below the red zone, then what finds no register, then the return address.
fn place(sp: u64, back: u64, arguments: &[Argument]) -> Result<Placed, Trouble> {
    let bytes: Vec<u8> = arguments.iter().flat_map(bytes_of).collect();
    let bytes_at = below(sp, RED_ZONE + bytes.len() as u64)?;
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
    let spilled_at = below(bytes_at, spilled.len() as u64 * 8)?;
    let mut stack = back.to_le_bytes().to_vec();
    stack.extend(spilled.iter().flat_map(|word| word.to_le_bytes()));
    stack.resize(usize::try_from(bytes_at - spilled_at).unwrap_or(0) + 8, 0);
    stack.extend(bytes);
    if stack.len() > MOST {
        return Err(Trouble::Range(format!("arguments of more than {MOST} bytes")));
    }
    Ok(Placed { integers, floats, stack, sp: spilled_at - 8 })
}

/// What an argument puts into memory.
fn bytes_of(argument: &Argument) -> Vec<u8> {
    match argument {
        Argument::Bytes(own) => [own.as_slice(), &[0]].concat(),
        _ => Vec::new(),
    }
}

/// So many bytes further down, aligned.
fn below(sp: u64, bytes: u64) -> Result<u64, Trouble> {
    let at = sp.checked_sub(bytes).map(|it| it & !15).filter(|it| *it > 16);
    at.ok_or_else(|| Trouble::state("the stack of the thread has no room for the call"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_register_lies_above_the_return_address() {
        let arguments: Vec<_> = (0..8).map(Argument::Integer).collect();
        let placed = place(0x1000, 0xabc, &arguments).unwrap();
        assert_eq!(placed.integers, [0, 1, 2, 3, 4, 5]);
        assert_eq!((placed.sp + 8) % 16, 0);
        assert!(placed.sp + placed.stack.len() as u64 <= 0x1000 - RED_ZONE);
        let words: Vec<u64> = placed.stack.chunks(8).map(|it| u64::from(it[0])).collect();
        assert_eq!(words, [0xbc, 6, 7]);
    }

    #[test]
    fn bytes_are_given_by_their_address_and_end_with_a_zero() {
        let arguments =
            [Argument::Bytes(b"ab".to_vec()), Argument::Float(1.5), Argument::Bytes(b"c".to_vec())];
        let placed = place(0x2000, 1, &arguments).unwrap();
        let text = |address: u64| {
            let from = usize::try_from(address - placed.sp).unwrap();
            placed.stack[from..].iter().copied().take_while(|it| *it != 0).collect::<Vec<_>>()
        };
        assert_eq!(
            placed.integers.iter().map(|it| text(*it)).collect::<Vec<_>>(),
            [&b"ab"[..], b"c"]
        );
        assert_eq!(placed.floats, [1.5]);
    }

    #[test]
    fn a_stack_without_room_is_refused() {
        assert!(place(64, 1, &[]).is_err());
        assert!(place(1 << 40, 1, &[Argument::Bytes(vec![1; MOST])]).is_err());
    }
}
