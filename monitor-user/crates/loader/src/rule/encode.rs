//! Encodes rule programs for the kernel's interpreter.
//!
//! In: instructions and the options of a program. Out: `abi::rule::EncodedProgram`, or why it
//! cannot be encoded. Makes no system calls.

use monitor_backend::Error;
use monitor_backend::rule::insn::{
    Cell, CellKind, GaugeId, Insn, MAX_INSNS, MAX_REGS, Operand, RecordOptions, Reg, TimerId,
    check_length,
};
use monitor_ebpf::abi::rule::opcode::{self, EncodedInsn, record_flags};
use monitor_ebpf::abi::rule::{EncodedProgram, NO_CREDENTIALS};
use monitor_model::Credentials;

/// Options of a program besides its instructions, as the kernel stores them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramOptions {
    /// Process set; 0 is all processes.
    pub set: u32,
    /// Maximum runs per second; 0 is no limit.
    pub limit: u32,
    /// Index of its switch.
    pub switch: u32,
    /// Share of the ring that its records use.
    pub share: u8,
    /// Run only in processes that these credentials may read.
    pub credentials: Option<Credentials>,
}

/// Encodes a program.
pub fn encode(insns: &[Insn], options: ProgramOptions) -> Result<EncodedProgram, Error> {
    check_length(insns)?;
    let mut encoded = [EncodedInsn::default(); MAX_INSNS];
    for (slot, insn) in encoded.iter_mut().zip(insns) {
        *slot = encode_insn(insn);
        if slot.code == opcode::RECORD {
            slot.dst = options.share;
        }
        if usize::from(slot.dst.max(slot.src)) >= MAX_REGS && slot.code != opcode::RECORD {
            let why = format!("{insn:?} uses a register above {}", MAX_REGS - 1);
            return Err(unsupported(why, "use one that no later instruction reads"));
        }
    }
    let ProgramOptions { set, limit, switch, credentials, .. } = options;
    let credentials = credentials.map_or([NO_CREDENTIALS; 2], |it| [it.uid, it.gid]);
    let n_insns = u8::try_from(insns.len()).unwrap_or(u8::MAX);
    // Larger values name no set and no switch, so the program would never run.
    let (set, switch) = (u8::try_from(set), u16::try_from(switch));
    let (set, switch) = (set.unwrap_or(u8::MAX), switch.unwrap_or(u16::MAX));
    Ok(EncodedProgram { n_insns, set, limit, switch, credentials, insns: encoded })
}

/// The error for a program that the kernel cannot run.
pub fn unsupported(why: String, fix: &str) -> Error {
    Error::unsupported("a rule in the kernel", why, fix)
}

fn encode_insn(insn: &Insn) -> EncodedInsn {
    let new = |code| EncodedInsn { code, ..EncodedInsn::default() };
    let write = |code, dst: Reg| EncodedInsn { dst: dst.0, ..new(code) };
    let read = |code, index, src: Reg| EncodedInsn { index, src: src.0, ..new(code) };
    let change_cell = |code, cell: Cell, src: Reg| read(code, cell.index, src);
    let gauge = |code, id: GaugeId, reg: Reg| EncodedInsn { dst: reg.0, ..read(code, id.0, reg) };
    match *insn {
        Insn::Argument(dst, index, width) => {
            EncodedInsn { index: index.into(), mode: width.code(), ..write(opcode::ARGUMENT, dst) }
        }
        Insn::Builtin(dst, which) => {
            EncodedInsn { index: which as u32, ..write(opcode::BUILTIN, dst) }
        }
        Insn::Register(dst, word) => EncodedInsn {
            index: opcode::builtin::REGISTERS + u32::from(word),
            ..write(opcode::BUILTIN, dst)
        },
        Insn::Constant(dst, value) => {
            EncodedInsn { imm: bits(value), ..write(opcode::CONSTANT, dst) }
        }
        Insn::Memory(dst, base, offset, width) => EncodedInsn {
            src: base.0,
            imm: bits(offset),
            mode: width.code(),
            ..write(opcode::MEMORY, dst)
        },
        Insn::Peek(dst, base, offset, width) => EncodedInsn {
            src: base.0,
            imm: bits(offset),
            mode: width.code(),
            ..write(opcode::PEEK, dst)
        },
        Insn::Errno(dst) => write(opcode::ERRNO, dst),
        Insn::Operate(dst, operator, operand) => {
            operate(EncodedInsn { mode: operator as u8, ..write(opcode::OPERATE, dst) }, operand)
        }
        Insn::Skip(n, when, src) => {
            EncodedInsn { mode: when as u8, ..read(opcode::SKIP, n.into(), src) }
        }
        Insn::Filter(src, compare, value) => {
            EncodedInsn { mode: compare.code(), imm: bits(value), ..read(opcode::FILTER, 0, src) }
        }
        Insn::Count(cell) => EncodedInsn { index: cell.index, ..new(opcode::COUNT) },
        Insn::Add(cell, src) => change_cell(opcode::ADD, cell, src),
        Insn::Extreme(cell, src) if cell.kind == CellKind::Min => {
            change_cell(opcode::MIN, cell, src)
        }
        Insn::Extreme(cell, src) => change_cell(opcode::MAX, cell, src),
        Insn::LatencyHistogram(id, src) => read(opcode::LATENCY_HISTOGRAM, id.0, src),
        Insn::StartTimer(timer, kept) => timed(read(opcode::TIMER_START, 0, kept), timer),
        Insn::StopTimer(dst, timer) => timed(write(opcode::TIMER_STOP, dst), timer),
        Insn::TimerRunning(dst, timer) => timed(write(opcode::TIMER_RUNNING, dst), timer),
        Insn::ChangeGauge(id, change) => gauge(opcode::GAUGE_ADD, id, change),
        Insn::SetGauge(id, value) => gauge(opcode::GAUGE_SET, id, value),
        Insn::ValueHistogram(id, src) => {
            EncodedInsn { imm: id.cells.into(), ..read(opcode::VALUE_HISTOGRAM, id.index, src) }
        }
        Insn::Trace(id, first, n) => EncodedInsn { mode: n, ..read(opcode::TRACE, id.0, first) },
        Insn::Record(options) => {
            let sets = options.stop.map_or([0; 2], |sets| [sets.traced.0, sets.stoppable.0]);
            let [traced, stoppable] = sets;
            EncodedInsn {
                src: options.texts,
                mode: record_mode(options),
                imm: stoppable.into(),
                index: traced,
                ..new(opcode::RECORD)
            }
        }
        Insn::Enable(program) => EncodedInsn { index: program.0, ..new(opcode::ENABLE) },
        Insn::Disable(program) => EncodedInsn { index: program.0, ..new(opcode::DISABLE) },
        Insn::Raise(event, first) => read(opcode::RAISE, event.0, first),
        Insn::Signal(number, target) => {
            EncodedInsn { imm: number.into(), mode: target as u8, ..new(opcode::SIGNAL) }
        }
        Insn::IfMember(dst, src, set) => {
            EncodedInsn { src: src.0, index: set.0, ..write(opcode::IF_MEMBER, dst) }
        }
    }
}

const fn operate(insn: EncodedInsn, operand: Operand) -> EncodedInsn {
    match operand {
        Operand::Register(src) => EncodedInsn { src: src.0, ..insn },
        Operand::Constant(imm) => EncodedInsn { index: opcode::IMMEDIATE, imm, ..insn },
    }
}

const fn bits(value: i64) -> u64 {
    value.cast_unsigned()
}

fn timed(insn: EncodedInsn, timer: TimerId) -> EncodedInsn {
    EncodedInsn {
        index: timer.index,
        mode: timer.scope as u8,
        imm: timer.generation.into(),
        ..insn
    }
}

const fn record_mode(options: RecordOptions) -> u8 {
    let wake = if options.urgent { record_flags::WAKE } else { 0 };
    let stack = if options.stack { record_flags::STACK } else { 0 };
    wake | stack | if options.stop.is_some() { record_flags::STOP_THREAD } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backend::rule::insn::Compare;
    use monitor_ebpf::abi::rule::opcode::compare;

    const PLAIN: ProgramOptions =
        ProgramOptions { set: 0, limit: 0, switch: 0, share: 2, credentials: None };

    #[test]
    fn a_program_that_is_too_long_is_refused_with_a_fix() {
        let error = encode(&[Insn::Constant(Reg(0), 1); 33], PLAIN).unwrap_err().to_string();
        assert!(error.contains("33 instructions") && error.contains("two programs"), "{error}");
    }

    #[test]
    fn an_unknown_register_is_refused() {
        let error = encode(&[Insn::Constant(Reg(8), 1)], PLAIN).unwrap_err().to_string();
        assert!(error.contains("above 7"), "{error}");
    }

    #[test]
    fn a_negative_constant_keeps_its_sign() {
        let options = ProgramOptions { limit: 9, ..PLAIN };
        let program = encode(&[Insn::Filter(Reg(3), Compare::Less, -5)], options).unwrap();
        let insn = program.insns[0];
        let expected = (opcode::FILTER, 3, compare::LESS, bits(-5));
        assert_eq!((insn.code, insn.src, insn.mode, insn.imm), expected);
        assert_eq!((program.n_insns, program.limit), (1, 9));
    }
}
