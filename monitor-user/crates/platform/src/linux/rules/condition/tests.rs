//! Compiled conditions hold where the worker finds that they do.

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
