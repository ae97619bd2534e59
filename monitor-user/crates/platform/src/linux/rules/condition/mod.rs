//! Conditions of breakpoints as instructions of a kernel program.
//!
//! In: bytecode ("Agent Expressions" of gdb's manual). Out: instructions after which the program
//! continues if one of the conditions holds or reads memory that cannot be read; none, if the
//! kernel cannot evaluate them. The value at depth n of the stack is in register n, or not computed
//! yet.

use monitor_backend::rule::insn::{Compare, Insn, MAX_REGS, Operand, Operator, Reg, SkipIf, Width};
use monitor_control::agent_expression::opcode::{Binary, Opcode};
use monitor_control::agent_expression::register_word;
use monitor_event::thread::AgentExpression;
use std::collections::BTreeMap;

/// The instructions for these conditions; none at all, if there are no conditions.
pub fn compile(conditions: &[AgentExpression]) -> Option<Vec<Insn>> {
    let mut compiler = Compiler::default();
    let (last, others) = match conditions.split_last() {
        Some(split) => split,
        None => return Some(Vec::new()),
    };
    for condition in others {
        let result = compiler.condition(&condition.0)?;
        compiler.skip_to_end(SkipIf::NotZero, result);
    }
    let result = compiler.condition(&last.0)?;
    compiler.filter(result);
    compiler.finish()
}

/// A value on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// In the register of its depth.
    Computed,
    Constant(u64),
    /// A word of the thread's registers, and a number added to it.
    Word(u8, u64),
}

/// A place in the bytecode to which it jumps.
#[derive(Debug, Default)]
struct Label {
    depth: usize,
    /// The skips that lead to it.
    skips: Vec<usize>,
}

#[derive(Default)]
struct Compiler {
    insns: Vec<Insn>,
    stack: Vec<Entry>,
    labels: BTreeMap<usize, Label>,
    /// Skips behind the last instruction.
    to_end: Vec<usize>,
    /// Instructions before this one cannot be changed: a skip leads here.
    fixed: usize,
}

impl Compiler {
    /// Compiles one condition; returns the register of its result.
    fn condition(&mut self, code: &[u8]) -> Option<Reg> {
        let (mut at, mut is_reached) = (0, true);
        self.stack.clear();
        self.labels.clear();
        loop {
            if let Some(label) = self.labels.remove(&at) {
                self.join(&label, is_reached)?;
                is_reached = true;
            }
            let op = Opcode::from_byte(*code.get(at)?)?;
            let bytes = op.operand_bytes();
            let operand = code.get(at + 1..at + 1 + bytes)?;
            let operand = operand.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            at += 1 + bytes;
            if !is_reached {
                continue;
            }
            match op {
                Opcode::End => break,
                Opcode::IfGoto | Opcode::Goto => {
                    let target = usize::try_from(operand).ok().filter(|it| *it >= at)?;
                    self.jump(op == Opcode::Goto, target)?;
                    is_reached = op != Opcode::Goto;
                }
                _ => self.step(op, operand)?,
            }
        }
        let depth = self.stack.len().checked_sub(1)?;
        self.compute(depth)?;
        // Another end of the same condition, behind this one, is not compiled.
        self.labels.is_empty().then_some(reg(depth)?)
    }

    /// Continues where jumps arrive, each with all values computed.
    fn join(&mut self, label: &Label, is_reached: bool) -> Option<()> {
        if is_reached {
            self.compute_all()?;
        } else {
            self.stack = vec![Entry::Computed; label.depth];
        }
        label.skips.iter().for_each(|skip| self.lead_here(*skip));
        (self.stack.len() == label.depth).then_some(())
    }

    fn jump(&mut self, always: bool, target: usize) -> Option<()> {
        self.compute_all()?;
        let top = reg(self.stack.len().saturating_sub(1))?;
        let when = if always { SkipIf::Always } else { SkipIf::NotZero };
        if !always {
            let _condition = self.stack.pop()?;
        }
        let skip = self.emit(Insn::Skip(0, when, top));
        let label = self.labels.entry(target).or_default();
        label.skips.push(skip);
        label.depth = self.stack.len();
        Some(())
    }

    fn step(&mut self, op: Opcode, operand: u64) -> Option<()> {
        match op {
            Opcode::Const(_) => self.stack.push(Entry::Constant(operand)),
            Opcode::Reg => {
                let word = register_word(u16::try_from(operand).ok()?)?;
                self.stack.push(Entry::Word(word, 0));
            }
            Opcode::Ref(bytes) => self.read_memory(bytes)?,
            Opcode::Ext | Opcode::ZeroExt => self.extend(op == Opcode::Ext, operand)?,
            Opcode::LogNot => self.apply(Operator::Equal, 0)?,
            Opcode::BitNot => self.apply(Operator::Xor, u64::MAX)?,
            Opcode::Dup => self.pick(0)?,
            Opcode::Pick => self.pick(usize::try_from(operand).ok()?)?,
            Opcode::Pop => drop(self.stack.pop()?),
            Opcode::Swap => self.swap()?,
            Opcode::Binary(operation) => self.binary(operator(operation))?,
            Opcode::Rot | Opcode::IfGoto | Opcode::Goto | Opcode::End => return None,
        }
        (self.stack.len() <= MAX_REGS).then_some(())
    }

    /// Replaces the address on top by what is there.
    fn read_memory(&mut self, bytes: u8) -> Option<()> {
        let width = match bytes {
            1 => Width::U8,
            2 => Width::U16,
            4 => Width::U32,
            _ => Width::U64,
        };
        let depth = self.stack.len().checked_sub(1)?;
        let offset = match &mut self.stack[depth] {
            Entry::Word(_, offset) => std::mem::take(offset),
            _ => 0,
        };
        let top = self.compute(depth)?;
        let _peek = self.emit(Insn::Peek(top, top, offset.cast_signed(), width));
        self.skip_to_end(SkipIf::Missing, top);
        Some(())
    }

    /// The low bits of the number on top.
    fn extend(&mut self, is_signed: bool, bits: u64) -> Option<()> {
        let width = match (bits, is_signed) {
            (64, _) => return Some(()),
            (8, true) => Width::I8,
            (16, true) => Width::I16,
            (32, true) => Width::I32,
            (8, false) => Width::U8,
            (16, false) => Width::U16,
            (32, false) => Width::U32,
            _ => return None,
        };
        self.apply(Operator::Truncate, width.code().into())
    }

    /// Applies an operator to the number on top and a constant.
    fn apply(&mut self, operator: Operator, second: u64) -> Option<()> {
        let depth = self.stack.len().checked_sub(1)?;
        if let Entry::Constant(first) = &mut self.stack[depth] {
            *first = operator.apply(*first, second);
            return Some(());
        }
        let top = self.compute(depth)?;
        let _done = self.emit(Insn::Operate(top, operator, Operand::Constant(second)));
        Some(())
    }

    fn binary(&mut self, operator: Operator) -> Option<()> {
        let right = self.stack.pop()?;
        let depth = self.stack.len();
        if let Entry::Constant(second) = right {
            is_defined(operator, second).then_some(())?;
            return match (&mut self.stack.last_mut()?, operator) {
                (Entry::Word(_, offset), Operator::Add | Operator::Subtract) => {
                    *offset = operator.apply(*offset, second);
                    Some(())
                }
                _ => self.apply(operator, second),
            };
        }
        // The result for each number is not known: it may be undefined.
        is_defined(operator, 0).then_some(())?;
        self.stack.push(right);
        let second = self.compute(depth)?;
        let first = self.compute(depth.checked_sub(1)?)?;
        let _right = self.stack.pop();
        let _done = self.emit(Insn::Operate(first, operator, Operand::Register(second)));
        Some(())
    }

    fn pick(&mut self, below: usize) -> Option<()> {
        let index = self.stack.len().checked_sub(below + 1)?;
        let picked = self.stack[index];
        self.stack.push(picked);
        if picked == Entry::Computed {
            self.copy(reg(self.stack.len() - 1)?, reg(index)?);
        }
        Some(())
    }

    fn swap(&mut self) -> Option<()> {
        let top = self.stack.len().checked_sub(1)?;
        let below = top.checked_sub(1)?;
        let (first, second) = (reg(below)?, reg(top)?);
        match (self.stack[below], self.stack[top]) {
            (Entry::Computed, Entry::Computed) => {
                for (to, from) in [(first, second), (second, first), (first, second)] {
                    let operand = Operand::Register(from);
                    let _done = self.emit(Insn::Operate(to, Operator::Xor, operand));
                }
            }
            (Entry::Computed, _) => self.copy(second, first),
            (_, Entry::Computed) => self.copy(first, second),
            _ => {}
        }
        self.stack.swap(below, top);
        Some(())
    }

    fn copy(&mut self, to: Reg, from: Reg) {
        let _zero = self.emit(Insn::Constant(to, 0));
        let _sum = self.emit(Insn::Operate(to, Operator::Or, Operand::Register(from)));
    }

    fn compute_all(&mut self) -> Option<()> {
        (0..self.stack.len()).try_for_each(|depth| self.compute(depth).map(drop))
    }

    /// Has a value in its register.
    fn compute(&mut self, depth: usize) -> Option<Reg> {
        let to = reg(depth)?;
        match std::mem::replace(self.stack.get_mut(depth)?, Entry::Computed) {
            Entry::Computed => {}
            Entry::Constant(value) => _ = self.emit(Insn::Constant(to, value.cast_signed())),
            Entry::Word(word, offset) => {
                let _word = self.emit(Insn::Register(to, word));
                if offset != 0 {
                    let operand = Operand::Constant(offset);
                    let _sum = self.emit(Insn::Operate(to, Operator::Add, operand));
                }
            }
        }
        Some(to)
    }

    /// Ends the program unless the register is not 0; with the comparison itself, if that was the
    /// last instruction.
    fn filter(&mut self, result: Reg) {
        let last = self.insns.last().copied().filter(|_| self.fixed < self.insns.len());
        let filter = match last {
            Some(Insn::Operate(of, Operator::Equal, Operand::Constant(value))) if of == result => {
                Some(Insn::Filter(of, Compare::Equal, value.cast_signed()))
            }
            Some(Insn::Operate(of, Operator::LessSigned, Operand::Constant(value)))
                if of == result =>
            {
                Some(Insn::Filter(of, Compare::Less, value.cast_signed()))
            }
            _ => None,
        };
        if filter.is_some() {
            let _replaced = self.insns.pop();
        }
        let _last = self.emit(filter.unwrap_or(Insn::Filter(result, Compare::NotEqual, 0)));
    }

    fn skip_to_end(&mut self, when: SkipIf, of: Reg) {
        let skip = self.emit(Insn::Skip(0, when, of));
        self.to_end.push(skip);
    }

    fn finish(mut self) -> Option<Vec<Insn>> {
        for skip in std::mem::take(&mut self.to_end) {
            self.lead_here(skip);
        }
        // A skip is as far as a program is long at most.
        (self.insns.len() < usize::from(u8::MAX)).then_some(self.insns)
    }

    fn lead_here(&mut self, skip: usize) {
        let skipped = u8::try_from(self.insns.len() - skip - 1).unwrap_or(u8::MAX);
        if let Some(Insn::Skip(n, ..)) = self.insns.get_mut(skip) {
            *n = skipped;
        }
        self.fixed = self.insns.len();
    }

    fn emit(&mut self, insn: Insn) -> usize {
        self.insns.push(insn);
        self.insns.len() - 1
    }
}

const fn operator(operation: Binary) -> Operator {
    match operation {
        Binary::Add => Operator::Add,
        Binary::Sub => Operator::Subtract,
        Binary::Mul => Operator::Multiply,
        Binary::DivSigned => Operator::DivideSigned,
        Binary::DivUnsigned => Operator::Divide,
        Binary::RemSigned => Operator::RemainderSigned,
        Binary::RemUnsigned => Operator::Remainder,
        Binary::Lsh => Operator::ShiftLeft,
        Binary::RshSigned => Operator::ShiftRightSigned,
        Binary::RshUnsigned => Operator::ShiftRight,
        Binary::BitAnd => Operator::And,
        Binary::BitOr => Operator::Or,
        Binary::BitXor => Operator::Xor,
        Binary::Equal => Operator::Equal,
        Binary::LessSigned => Operator::LessSigned,
        Binary::LessUnsigned => Operator::Less,
    }
}

/// Whether the operator is the same in the kernel for this second number.
const fn is_defined(operator: Operator, second: u64) -> bool {
    match operator {
        Operator::Divide
        | Operator::DivideSigned
        | Operator::Remainder
        | Operator::RemainderSigned => second != 0,
        Operator::ShiftLeft | Operator::ShiftRight | Operator::ShiftRightSigned => {
            second > 0 && second < 64
        }
        _ => true,
    }
}

fn reg(depth: usize) -> Option<Reg> {
    u8::try_from(depth).ok().filter(|_| depth < MAX_REGS).map(Reg)
}

#[cfg(test)]
mod tests;
