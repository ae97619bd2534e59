//! Acts and errands of the request language as orders to a hand.

use crate::Act;
use monitor_control as control;
use monitor_control::{DumpLocation, RequestTag};
use monitor_event::thread::RunControl;
use monitor_event::thread::Target;
use std::path::Path;

/// An act on one process, as a hand has it; what comes of it later bears the mark. Processes are
/// dumped to this folder.
pub fn order(
    act: &Act,
    target: Target,
    (mark, folder): (RequestTag, &Path),
) -> control::WorkerRequest {
    let dump = |name: &String| DumpLocation { folder: folder.to_owned(), name: name.clone() };
    match act {
        Act::Stop => control::WorkerRequest::Stop(target),
        Act::Continue => control::WorkerRequest::Continue(target),
        Act::Kill(signal) => control::WorkerRequest::Signal(target, *signal),
        Act::Nice(value) => control::WorkerRequest::SetNice(target, *value),
        Act::Read(address, bytes) => control::WorkerRequest::ReadMemory(target, *address, *bytes),
        Act::Write(address, bytes) => {
            control::WorkerRequest::WriteMemory(target, *address, bytes.clone())
        }
        Act::Integers(first, count) => control::WorkerRequest::ReadIntegers(target, *first, *count),
        Act::SetIntegers(first, values) => {
            control::WorkerRequest::WriteIntegers(target, *first, values.clone())
        }
        Act::Floats(first, count) => control::WorkerRequest::ReadFloats(target, *first, *count),
        Act::SetFloats(first, values) => {
            control::WorkerRequest::WriteFloats(target, *first, values.clone())
        }
        Act::Goto(address) => control::WorkerRequest::Goto(target, *address),
        Act::Backtrace(names) => control::WorkerRequest::Backtrace(target, u16::MAX, *names),
        Act::Loader => control::WorkerRequest::LoadedImages(target),
        Act::Work(work) => control::WorkerRequest::RunBatch(target, work.clone()),
        Act::Checkpoint => control::WorkerRequest::CheckCriu,
        Act::Lossless => control::WorkerRequest::CheckLossless(target),
        Act::Movable => control::WorkerRequest::CheckMovable(target, folder.to_owned()),
        Act::Dump(name) => control::WorkerRequest::Dump(target, mark, dump(name)),
        Act::Restore(name) | Act::Return(name) => control::WorkerRequest::Restore(mark, dump(name)),
        Act::Start(program) => control::WorkerRequest::Start(program.clone()),
    }
}

/// An errand of one process, as a hand has it; what comes of it bears the mark.
pub fn errand(errand: &RunControl, target: Target, mark: RequestTag) -> control::WorkerRequest {
    match errand {
        RunControl::Break(address) => control::WorkerRequest::SetBreakpoint(target, *address, mark),
        RunControl::Step => control::WorkerRequest::Step(target, mark),
        RunControl::Next => control::WorkerRequest::Next(target, mark),
        RunControl::Finish => control::WorkerRequest::Finish(target, mark),
        RunControl::Call(procedure, arguments) => {
            control::WorkerRequest::Call(target, mark, *procedure, arguments.clone())
        }
    }
}
