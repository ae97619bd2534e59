//! Acts and errands of the request language as orders to a hand.

use crate::Act;
use monitor_control as control;
use monitor_control::{Dump, Mark};
use monitor_event::thread::Errand;
use monitor_event::thread::Target;
use std::path::Path;

/// An act on one process, as a hand has it; what comes of it later bears the mark. Processes are
/// dumped to this folder.
pub fn order(act: &Act, target: Target, (mark, folder): (Mark, &Path)) -> control::Act {
    let dump = |name: &String| Dump { folder: folder.to_owned(), name: name.clone() };
    match act {
        Act::Stop => control::Act::Stop(target),
        Act::Continue => control::Act::Continue(target),
        Act::Kill(signal) => control::Act::Kill(target, *signal),
        Act::Nice(value) => control::Act::Nice(target, *value),
        Act::Read(address, bytes) => control::Act::Read(target, *address, *bytes),
        Act::Write(address, bytes) => control::Act::Write(target, *address, bytes.clone()),
        Act::Integers(first, count) => control::Act::Integers(target, *first, *count),
        Act::SetIntegers(first, values) => {
            control::Act::SetIntegers(target, *first, values.clone())
        }
        Act::Floats(first, count) => control::Act::Floats(target, *first, *count),
        Act::SetFloats(first, values) => control::Act::SetFloats(target, *first, values.clone()),
        Act::Goto(address) => control::Act::Goto(target, *address),
        Act::Backtrace(names) => control::Act::Backtrace(target, u16::MAX, *names),
        Act::Loader => control::Act::Loader(target),
        Act::Work(work) => control::Act::Work(target, work.clone()),
        Act::Checkpoint => control::Act::Checkpoint,
        Act::Lossless => control::Act::Lossless(target),
        Act::Movable => control::Act::Movable(target, folder.to_owned()),
        Act::Dump(name) => control::Act::Dump(target, mark, dump(name)),
        Act::Restore(name) | Act::Return(name) => control::Act::Restore(mark, dump(name)),
        Act::Start(program) => control::Act::Start(program.clone()),
    }
}

/// An errand of one process, as a hand has it; what comes of it bears the mark.
pub fn errand(errand: &Errand, target: Target, mark: Mark) -> control::Act {
    match errand {
        Errand::Break(address) => control::Act::Break(target, *address, mark),
        Errand::Step => control::Act::Step(target, mark),
        Errand::Next => control::Act::Next(target, mark),
        Errand::Finish => control::Act::Finish(target, mark),
        Errand::Call(procedure, arguments) => {
            control::Act::Call(target, mark, *procedure, arguments.clone())
        }
    }
}
