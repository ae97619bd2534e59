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
mod tests {
    use super::*;
    use monitor_backend::rule::insn::MISSING;
    use monitor_control::agent_expression::{Inputs, holds};
    use proptest::prelude::*;

    const END: u8 = 0x27;

    /// Registers that are their number times 16, and memory whose bytes are their addresses, except
    /// at 0.
    struct Thread;

    impl Inputs for Thread {
        fn register(&mut self, number: u16) -> Option<u64> {
            register_word(number).map(|word| 16 * u64::from(word))
        }

        fn memory(&mut self, address: u64, bytes: u8) -> Option<u64> {
            (address != 0).then(|| pattern(address) & (u64::MAX >> (64 - 8 * bytes)))
        }
    }

    fn pattern(address: u64) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|n| address.to_le_bytes()[0].wrapping_add(n as u8)))
    }

    /// Runs instructions as the kernel does; whether the last one is reached.
    fn passes(insns: &[Insn]) -> bool {
        let mut regs = [0_u64; MAX_REGS];
        let mut next = 0;
        while let Some(insn) = insns.get(next) {
            next += 1;
            let at = |reg: Reg| usize::from(reg.0);
            match *insn {
                Insn::Register(to, word) => regs[at(to)] = 16 * u64::from(word),
                Insn::Constant(to, value) => regs[at(to)] = value.cast_unsigned(),
                Insn::Peek(to, from, offset, width) => {
                    let address = regs[at(from)].wrapping_add_signed(offset);
                    let read = width.truncate(pattern(address));
                    regs[at(to)] = if address == 0 { MISSING } else { read };
                }
                Insn::Operate(to, operator, operand) => {
                    let second = match operand {
                        Operand::Register(from) => regs[at(from)],
                        Operand::Constant(value) => value,
                    };
                    regs[at(to)] = operator.apply(regs[at(to)], second);
                }
                Insn::Skip(n, when, of) if when.holds(regs[at(of)]) => next += usize::from(n),
                Insn::Skip(..) => {}
                Insn::Filter(of, how, with) if how.holds(regs[at(of)], with) => {}
                Insn::Filter(..) => return false,
                _ => panic!("{insn:?}"),
            }
        }
        true
    }

    /// Appends an expression, of this depth at most, as the choices say.
    fn expression(code: &mut Vec<u8>, choices: &mut impl Iterator<Item = u8>, depth: u8) {
        let mut choose = |below: u8| choices.next().unwrap_or(0) % below;
        match choose(if depth == 0 { 2 } else { 8 }) {
            0 => code.extend([0x22, choose(6)]),
            1 => code.extend([0x26, 0, choose(18)]),
            2 => {
                let op = [0x0e, 0x12, 0x17, 0x18, 0x19, 0x1a][usize::from(choose(6))];
                expression(code, choices, depth - 1);
                code.push(op);
            }
            3 => {
                let op = [0x16, 0x2a][usize::from(choose(2))];
                let bits = [8, 16, 32, 64][usize::from(choose(4))];
                expression(code, choices, depth - 1);
                code.extend([op, bits]);
            }
            4 => {
                // As gdb compiles `a ? b : 7`.
                expression(code, choices, depth - 1);
                let jumps = code.len();
                code.extend([0x20, 0, u8::try_from(jumps + 8).unwrap(), 0x22, 7, 0x21, 0, 0]);
                expression(code, choices, depth - 1);
                code[jumps + 7] = u8::try_from(code.len()).unwrap();
            }
            _ => {
                let operators = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 19, 20, 21];
                let (op, is_swapped) = (operators[usize::from(choose(16))], choose(4) == 0);
                expression(code, choices, depth - 1);
                expression(code, choices, depth - 1);
                code.extend(is_swapped.then_some(0x2b));
                code.push(op);
            }
        }
    }

    fn check_alike(condition: &AgentExpression) -> bool {
        let Some(insns) = compile(std::slice::from_ref(condition)) else { return false };
        let holds = holds(condition, &mut Thread);
        // What cannot be evaluated is left to the worker.
        assert_eq!(passes(&insns), holds.unwrap_or(true), "{condition:02x?}\n{insns:?}");
        true
    }

    proptest! {
        #[test]
        fn the_kernel_excludes_exactly_the_hits_that_the_worker_would(
            choices in proptest::collection::vec(any::<u8>(), 100)
        ) {
            let mut code = Vec::new();
            expression(&mut code, &mut choices.into_iter(), 3);
            code.push(END);
            let _compiled = check_alike(&AgentExpression(code));
        }
    }

    #[test]
    fn what_gdb_sends_is_evaluated_by_the_kernel() {
        let variable = [0x26, 0, 6, 0x22, 20, 3, 0x19, 0x16, 32];
        let ends: [&[u8]; 5] = [
            &[0x22, 5, 0x13, END],                      // i == 5
            &[0x22, 5, 0x2b, 0x14, END],                // i > 5
            &[0x22, 5, 0x14, 0x0e, END],                // i >= 5
            &[0x22, 7, 0x07, 0x22, 3, 0x13, 0x0e, END], // i % 7 != 3
            // i && 1
            &[0x20, 0, 15, 0x21, 0, 20, 0x22, 1, 0x21, 0, 22, 0x22, 0, END],
        ];
        for end in ends {
            let code = [&variable, end].concat();
            assert!(check_alike(&AgentExpression(code)), "{end:02x?}");
        }
    }

    #[test]
    fn one_of_several_conditions_is_enough() {
        let is = |number: u8| AgentExpression(vec![0x26, 0, 3, 0x22, number, 0x13, END]);
        let rdx = 16 * register_word(3).unwrap() as u8;
        for (conditions, passed) in [
            (vec![is(1), is(2)], false),
            (vec![is(rdx), is(2)], true),
            (vec![is(1), is(rdx)], true),
            (vec![], true),
        ] {
            assert_eq!(passes(&compile(&conditions).unwrap()), passed, "{conditions:?}");
        }
    }

    #[test]
    fn a_variable_of_a_frame_is_compared_in_few_instructions() {
        // `i == 3` for an int at rbp-20.
        let code = [0x26, 0, 6, 0x22, 20, 3, 0x19, 0x16, 32, 0x22, 3, 0x13, END];
        let insns = compile(&[AgentExpression(code.to_vec())]).unwrap();
        assert_eq!(insns.len(), 5, "{insns:?}");
        assert_eq!(insns[4], Insn::Filter(Reg(0), Compare::Equal, 3));
    }

    #[test]
    fn what_the_kernel_cannot_evaluate_is_left_to_the_worker() {
        for code in [
            vec![0x22, 1, 0x26, 0, 0, 5, END], // 1 / rax
            vec![0x26, 0, 40, END],            // xmm0
            vec![0x22, 1, 0x21, 0, 0],         // a loop
            vec![0x30, END],                   // a trace
            vec![0x26, 0],                     // cut off
            vec![END],                         // nothing
        ] {
            assert_eq!(compile(&[AgentExpression(code.clone())]), None, "{code:02x?}");
        }
    }
}
