//! Acts as the kernel's operations, and a list as its record.
//!
//! In: a list. Out: `abi::rule::List`, or why it cannot be one. Asks nobody.

use monitor_backend::Error;
use monitor_backend::rule::act::{
    Act, Cell, CellKind, LevelId, MAX_ACTS, MAX_VALUES, Receiver, Recorded, Source, Timer, Value,
    Whose,
};
use monitor_ebpf::abi::rule::op::{self, Op, receiver, source, told, whose};
use monitor_ebpf::abi::rule::{List, MAX_OPS, NOBODY};
use monitor_model::whose::Eyes;

/// What a list is but its acts, as the kernel has it.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Its set; 0 is everybody.
    pub set: u32,
    /// Its limit; 0 is none.
    pub limit: u32,
    /// Its switch.
    pub switch: u32,
    /// Whose processes it is for alone.
    pub eyes: Option<Eyes>,
}

/// A list of these acts.
pub fn list(acts: &[Act], terms: Terms) -> Result<List, Error> {
    if acts.len() > MAX_ACTS {
        let why = format!("it has {} acts, and the kernel runs {MAX_ACTS}", acts.len());
        return Err(unsupported(why, "two lists on the same place do it"));
    }
    let mut ops = [Op::default(); MAX_OPS];
    for (op, act) in ops.iter_mut().zip(acts) {
        *op = code(act);
        if usize::from(op.to.max(op.from)) >= MAX_VALUES && op.code != op::RECORD {
            let why = format!("{act:?} names a value above {}", MAX_VALUES - 1);
            return Err(unsupported(why, "use one that another act needs no more"));
        }
    }
    let Terms { set, limit, switch, eyes } = terms;
    let eyes = eyes.map_or([NOBODY; 2], |it| [it.uid, it.gid]);
    let n_ops = u8::try_from(acts.len()).unwrap_or(u8::MAX);
    // Beyond these there is no set and no switch: nothing would run.
    let (set, switch) = (u8::try_from(set), u16::try_from(switch));
    let (set, switch) = (set.unwrap_or(u8::MAX), switch.unwrap_or(u16::MAX));
    Ok(List { n_ops, set, limit, switch, eyes, ops })
}

/// The error for a list that the kernel cannot run.
pub fn unsupported(why: String, fix: &str) -> Error {
    Error::Unsupported { what: "a rule in the kernel".into(), why, fix: fix.into() }
}

fn code(act: &Act) -> Op {
    let new = |code| Op { code, ..Op::default() };
    let gives = |code, to: Value| Op { to: to.0, ..new(code) };
    let takes = |code, index, from: Value| Op { index, from: from.0, ..new(code) };
    let changes = |code, cell: Cell, from: Value| takes(code, cell.index, from);
    let moves = |code, level: LevelId, by: Value| Op { to: by.0, ..takes(code, level.0, by) };
    match *act {
        Act::Argument(to, index, how) => {
            Op { index: index.into(), how: how.code(), ..gives(op::ARGUMENT, to) }
        }
        Act::Source(to, what) => Op { index: source(what), ..gives(op::SOURCE, to) },
        Act::Constant(to, value) => Op { value: bits(value), ..gives(op::CONSTANT, to) },
        Act::Memory(to, at, offset, how) => {
            Op { from: at.0, value: bits(offset), how: how.code(), ..gives(op::MEMORY, to) }
        }
        Act::Peek(to, at, offset, how) => {
            Op { from: at.0, value: bits(offset), how: how.code(), ..gives(op::PEEK, to) }
        }
        Act::Filter(of, how, value) => {
            Op { how: how.code(), value: bits(value), ..takes(op::FILTER, 0, of) }
        }
        Act::Count(cell) => Op { index: cell.index, ..new(op::COUNT) },
        Act::Add(cell, of) => changes(op::ADD, cell, of),
        Act::Extreme(cell, of) if cell.kind == CellKind::Least => changes(op::MIN, cell, of),
        Act::Extreme(cell, of) => changes(op::MAX, cell, of),
        Act::Histogram(id, of) => takes(op::HISTOGRAM, id.0, of),
        Act::Begin(timer, keep) => timed(takes(op::BEGIN, 0, keep), timer),
        Act::End(to, timer) => timed(gives(op::END, to), timer),
        Act::Running(to, timer) => timed(gives(op::RUNNING, to), timer),
        Act::Change(level, by) => moves(op::LEVEL_CHANGE, level, by),
        Act::Level(level, is) => moves(op::LEVEL, level, is),
        Act::Spread(it, of) => Op { value: it.cells.into(), ..takes(op::SPREAD, it.index, of) },
        Act::Trace(trace, of, n) => Op { how: n, ..takes(op::TRACE, trace.0, of) },
        Act::Record(it) => {
            let [traced, stoppable] = it.holds.map_or([0; 2], |it| [it.traced.0, it.stoppable.0]);
            let how = recorded(it);
            Op { from: it.texts, how, value: stoppable.into(), index: traced, ..new(op::RECORD) }
        }
        Act::Enable(list) => Op { index: list.0, ..new(op::ENABLE) },
        Act::Disable(list) => Op { index: list.0, ..new(op::DISABLE) },
        Act::Raise(event, from) => takes(op::RAISE, event.0, from),
        Act::Signal(number, to) => {
            Op { value: number.into(), how: receiver(to), ..new(op::SIGNAL) }
        }
        Act::Ours(to, of, set) => Op { from: of.0, index: set.0, ..gives(op::OURS, to) },
    }
}

const fn bits(value: i64) -> u64 {
    value.cast_unsigned()
}

fn timed(op: Op, timer: Timer) -> Op {
    let how = match timer.whose {
        Whose::Thread => whose::THREAD,
        Whose::Process => whose::PROCESS,
        Whose::Node => whose::NODE,
    };
    Op { index: timer.index, how, value: timer.generation.into(), ..op }
}

const fn source(it: Source) -> u32 {
    match it {
        Source::Pid => source::PID,
        Source::Tid => source::TID,
        Source::Time => source::TIME,
        Source::Cpu => source::CPU,
        Source::Ip => source::IP,
        Source::Sp => source::SP,
        Source::ThreadPointer => source::THREAD_POINTER,
    }
}

const fn receiver(it: Receiver) -> u8 {
    match it {
        Receiver::Process => receiver::PROCESS,
        Receiver::Thread => receiver::THREAD,
    }
}

const fn recorded(it: Recorded) -> u8 {
    let wakes = if it.urgent { told::WAKES } else { 0 };
    let stack = if it.stack { told::STACK } else { 0 };
    wakes | stack | if it.holds.is_some() { told::HOLDS } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor_backend::rule::act::Compare;
    use monitor_ebpf::abi::rule::op::compare;

    const PLAIN: Terms = Terms { set: 0, limit: 0, switch: 0, eyes: None };

    #[test]
    fn a_list_that_is_too_long_is_refused_with_what_to_do() {
        let error = list(&[Act::Constant(Value(0), 1); 17], PLAIN).unwrap_err().to_string();
        assert!(error.contains("17 acts") && error.contains("two lists"), "{error}");
    }

    #[test]
    fn a_value_that_is_not_there_is_refused() {
        let error = list(&[Act::Constant(Value(8), 1)], PLAIN).unwrap_err().to_string();
        assert!(error.contains("above 7"), "{error}");
    }

    #[test]
    fn a_negative_constant_keeps_its_sign() {
        let terms = Terms { limit: 9, ..PLAIN };
        let list = list(&[Act::Filter(Value(3), Compare::Less, -5)], terms).unwrap();
        let op = list.ops[0];
        assert_eq!((op.code, op.from, op.how, op.value), (op::FILTER, 3, compare::LESS, bits(-5)));
        assert_eq!((list.n_ops, list.limit), (1, 9));
    }
}
