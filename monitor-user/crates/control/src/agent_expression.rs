//! Conditions of breakpoints, which are bytecode ("Agent Expressions" of gdb's manual).
//!
//! In: the bytecode, and what reads registers and memory of the stopped thread. Out: a number. The
//! kernel has excluded most hits before, where it can.

use monitor_event::thread::AgentExpression;

/// What a condition reads.
pub trait Inputs {
    /// A register by gdb's number.
    fn register(&mut self, number: u16) -> Option<u64>;

    /// An unsigned number of 1, 2, 4 or 8 bytes at an address.
    fn memory(&mut self, address: u64, bytes: u8) -> Option<u64>;
}

/// The index in `struct user_regs_struct`, and in `struct pt_regs`, of gdb's numbers: `rax` to
/// `r15` in the order of the processor's manual, then `rip` and the flags.
const REGISTER_WORDS: [u8; 18] = [10, 5, 11, 12, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16, 18];

/// The word of a general register, by gdb's number.
pub fn register_word(number: u16) -> Option<u8> {
    REGISTER_WORDS.get(usize::from(number)).copied()
}

/// Most instructions that one evaluation executes: bytecode can loop.
const MAX_STEPS: usize = 10_000;
/// Most values on the stack.
const MAX_STACK: usize = 256;

/// Whether a condition holds; `None` if it cannot be evaluated.
pub fn holds(condition: &AgentExpression, inputs: &mut dyn Inputs) -> Option<bool> {
    let mut machine = Machine { code: &condition.0, at: 0, stack: Vec::new(), inputs };
    for _ in 0..MAX_STEPS {
        if machine.step()? {
            return machine.stack.last().map(|it| *it != 0);
        }
    }
    None
}

struct Machine<'c> {
    code: &'c [u8],
    at: usize,
    stack: Vec<u64>,
    inputs: &'c mut dyn Inputs,
}

impl Machine<'_> {
    /// Executes an instruction; whether it was the last.
    fn step(&mut self) -> Option<bool> {
        let instruction = self.operand(1)?;
        match instruction {
            0x27 => return Some(true),
            0x02..=0x0b | 0x0f..=0x11 | 0x13..=0x15 => {
                let (right, left) = (self.pop()?, self.pop()?);
                self.push(binary(instruction, left, right)?)?;
            }
            0x0e => {
                let value = self.pop()?;
                self.push(u64::from(value == 0))?;
            }
            0x12 => {
                let value = self.pop()?;
                self.push(!value)?;
            }
            0x16 | 0x2a => {
                let bits = self.operand(1)?;
                let value = self.pop()?;
                self.push(extend(value, bits, instruction == 0x16)?)?;
            }
            0x17..=0x1a => {
                let address = self.pop()?;
                let bytes = 1 << (instruction - 0x17);
                let value = self.inputs.memory(address, bytes)?;
                self.push(value)?;
            }
            0x20 | 0x21 => {
                let target = self.operand(2)?;
                if instruction == 0x21 || self.pop()? != 0 {
                    self.at = usize::try_from(target).ok()?;
                }
            }
            0x22..=0x25 => {
                let value = self.operand(1 << (instruction - 0x22))?;
                self.push(value)?;
            }
            0x26 => {
                let number = u16::try_from(self.operand(2)?).ok()?;
                let value = self.inputs.register(number)?;
                self.push(value)?;
            }
            0x28 | 0x32 => {
                let depth = if instruction == 0x32 { self.operand(1)? } else { 0 };
                let index = self.stack.len().checked_sub(1 + usize::try_from(depth).ok()?)?;
                self.push(self.stack[index])?;
            }
            0x29 => drop(self.pop()?),
            0x2b => {
                let (first, second) = (self.pop()?, self.pop()?);
                self.push(first)?;
                self.push(second)?;
            }
            0x33 => {
                let (c, b, a) = (self.pop()?, self.pop()?, self.pop()?);
                [c, a, b].into_iter().try_for_each(|it| self.push(it))?;
            }
            // Floating point, trace variables and traces.
            _ => return None,
        }
        Some(false)
    }

    /// The next bytes of the code, as a big-endian number.
    fn operand(&mut self, bytes: usize) -> Option<u64> {
        let own = self.code.get(self.at..self.at + bytes)?;
        self.at += bytes;
        Some(own.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn push(&mut self, value: u64) -> Option<()> {
        self.stack.push(value);
        (self.stack.len() <= MAX_STACK).then_some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.stack.pop()
    }
}

fn binary(instruction: u64, left: u64, right: u64) -> Option<u64> {
    let (signed_left, signed_right) = (left.cast_signed(), right.cast_signed());
    let shift = u32::try_from(right).unwrap_or(u32::MAX);
    Some(match instruction {
        0x02 => left.wrapping_add(right),
        0x03 => left.wrapping_sub(right),
        0x04 => left.wrapping_mul(right),
        0x05 => signed_left.checked_div(signed_right)?.cast_unsigned(),
        0x06 => left.checked_div(right)?,
        0x07 => signed_left.checked_rem(signed_right)?.cast_unsigned(),
        0x08 => left.checked_rem(right)?,
        0x09 => left.checked_shl(shift).unwrap_or(0),
        0x0a => (signed_left >> shift.min(63)).cast_unsigned(),
        0x0b => left.checked_shr(shift).unwrap_or(0),
        0x0f => left & right,
        0x10 => left | right,
        0x11 => left ^ right,
        0x13 => u64::from(left == right),
        0x14 => u64::from(signed_left < signed_right),
        0x15 => u64::from(left < right),
        _ => return None,
    })
}

/// The low bits of a number, sign-extended or zero-extended.
fn extend(value: u64, bits: u64, signed: bool) -> Option<u64> {
    let above = 64_u32.checked_sub(u32::try_from(bits).ok()?).filter(|it| *it < 64)?;
    let low = value << above;
    Some(if signed { (low.cast_signed() >> above).cast_unsigned() } else { low >> above })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Inputs for Fixed {
        fn register(&mut self, number: u16) -> Option<u64> {
            (number == 6).then_some(0x1000)
        }

        fn memory(&mut self, address: u64, bytes: u8) -> Option<u64> {
            (address == 0xfec && bytes == 4).then_some(0xffff_fffb)
        }
    }

    fn check(code: &[u8], want: Option<bool>) {
        assert_eq!(holds(&AgentExpression(code.to_vec()), &mut Fixed), want, "{code:02x?}");
    }

    #[test]
    fn a_variable_of_a_frame_is_compared() {
        // `i < 0` for an int at rbp-20: reg 6, const8 20, sub, ref32, ext 32, const8 0,
        // less_signed.
        let less = [0x26, 0, 6, 0x22, 20, 3, 0x19, 0x16, 32, 0x22, 0, 0x14, 0x27];
        check(&less, Some(true));
        // `i == 3`.
        let equal = [0x26, 0, 6, 0x22, 20, 3, 0x19, 0x16, 32, 0x22, 3, 0x13, 0x27];
        check(&equal, Some(false));
    }

    #[test]
    fn what_cannot_be_evaluated_has_no_value() {
        check(&[0x26, 0, 7, 0x27], None);
        check(&[0x22, 1, 0x22, 0, 5, 0x27], None);
        check(&[0x02], None);
        check(&[0x21, 0, 0], None);
        check(&[0x22, 9, 0x1a, 0x27], None);
        check(&[0x22], None);
        check(&[0x27], None);
    }

    #[test]
    fn a_branch_is_taken_on_a_number_that_is_not_zero() {
        // if_goto 7: const8 1; at 7: const8 0.
        check(&[0x22, 1, 0x20, 0, 8, 0x22, 1, 0x27, 0x22, 0, 0x27], Some(false));
        check(&[0x22, 0, 0x20, 0, 8, 0x22, 1, 0x27, 0x22, 0, 0x27], Some(true));
    }
}
