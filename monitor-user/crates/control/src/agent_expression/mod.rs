//! Conditions of breakpoints, which are bytecode ("Agent Expressions" of gdb's manual).
//!
//! In: the bytecode, and what reads registers and memory of the stopped thread. Out: a number. The
//! kernel has excluded most hits before, where it can.

pub mod opcode;

use monitor_event::thread::AgentExpression;
use opcode::{Binary, Opcode};

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
        let opcode = Opcode::from_byte(u8::try_from(self.number(1)?).ok()?)?;
        let operand = self.number(opcode.operand_bytes())?;
        match opcode {
            Opcode::End => return Some(true),
            Opcode::Binary(operation) => {
                let (right, left) = (self.pop()?, self.pop()?);
                self.push(binary(operation, left, right)?)?;
            }
            Opcode::LogNot => {
                let value = self.pop()?;
                self.push(u64::from(value == 0))?;
            }
            Opcode::BitNot => {
                let value = self.pop()?;
                self.push(!value)?;
            }
            Opcode::Ext | Opcode::ZeroExt => {
                let value = self.pop()?;
                self.push(extend(value, operand, opcode == Opcode::Ext)?)?;
            }
            Opcode::Ref(bytes) => {
                let address = self.pop()?;
                let value = self.inputs.memory(address, bytes)?;
                self.push(value)?;
            }
            Opcode::Goto => self.at = usize::try_from(operand).ok()?,
            Opcode::IfGoto => {
                if self.pop()? != 0 {
                    self.at = usize::try_from(operand).ok()?;
                }
            }
            Opcode::Const(_) => self.push(operand)?,
            Opcode::Reg => {
                let value = self.inputs.register(u16::try_from(operand).ok()?)?;
                self.push(value)?;
            }
            Opcode::Dup | Opcode::Pick => {
                // Without an operand, it is 0.
                let below = usize::try_from(operand).ok()?;
                let index = self.stack.len().checked_sub(1 + below)?;
                self.push(self.stack[index])?;
            }
            Opcode::Pop => drop(self.pop()?),
            Opcode::Swap => {
                let (first, second) = (self.pop()?, self.pop()?);
                self.push(first)?;
                self.push(second)?;
            }
            Opcode::Rot => {
                let (c, b, a) = (self.pop()?, self.pop()?, self.pop()?);
                [c, a, b].into_iter().try_for_each(|it| self.push(it))?;
            }
        }
        Some(false)
    }

    /// The next bytes of the code, as a big-endian number.
    fn number(&mut self, bytes: usize) -> Option<u64> {
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

fn binary(operation: Binary, left: u64, right: u64) -> Option<u64> {
    let (signed_left, signed_right) = (left.cast_signed(), right.cast_signed());
    let shift = u32::try_from(right).unwrap_or(u32::MAX);
    Some(match operation {
        Binary::Add => left.wrapping_add(right),
        Binary::Sub => left.wrapping_sub(right),
        Binary::Mul => left.wrapping_mul(right),
        Binary::DivSigned => signed_left.checked_div(signed_right)?.cast_unsigned(),
        Binary::DivUnsigned => left.checked_div(right)?,
        Binary::RemSigned => signed_left.checked_rem(signed_right)?.cast_unsigned(),
        Binary::RemUnsigned => left.checked_rem(right)?,
        Binary::Lsh => left.checked_shl(shift).unwrap_or(0),
        Binary::RshSigned => (signed_left >> shift.min(63)).cast_unsigned(),
        Binary::RshUnsigned => left.checked_shr(shift).unwrap_or(0),
        Binary::BitAnd => left & right,
        Binary::BitOr => left | right,
        Binary::BitXor => left ^ right,
        Binary::Equal => u64::from(left == right),
        Binary::LessSigned => u64::from(signed_left < signed_right),
        Binary::LessUnsigned => u64::from(left < right),
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
