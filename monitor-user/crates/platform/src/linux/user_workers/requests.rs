//! Acts and errands of the request language as orders to a hand.

use crate::ProcessAction;
use monitor_control as control;
use monitor_control::{DumpLocation, RequestTag};
use monitor_event::thread::RunControl;
use monitor_event::thread::Target;
use std::path::Path;

/// An act on one process, as a hand has it; what comes of it later bears the mark. Processes are
/// dumped to this folder.
pub fn worker_request(
    act: &ProcessAction,
    target: Target,
    (mark, folder): (RequestTag, &Path),
) -> control::WorkerRequest {
    let dump = |name: &String| DumpLocation { folder: folder.to_owned(), name: name.clone() };
    match act {
        ProcessAction::Stop => control::WorkerRequest::Stop(target),
        ProcessAction::Continue => control::WorkerRequest::Continue(target),
        ProcessAction::Kill(signal) => control::WorkerRequest::Signal(target, *signal),
        ProcessAction::Nice(value) => control::WorkerRequest::SetNice(target, *value),
        ProcessAction::Read(address, bytes) => control::WorkerRequest::ReadMemory(target, *address, *bytes),
        ProcessAction::Write(address, bytes) => {
            control::WorkerRequest::WriteMemory(target, *address, bytes.clone())
        }
        ProcessAction::Integers(first, count) => control::WorkerRequest::ReadIntegers(target, *first, *count),
        ProcessAction::SetIntegers(first, values) => {
            control::WorkerRequest::WriteIntegers(target, *first, values.clone())
        }
        ProcessAction::Floats(first, count) => control::WorkerRequest::ReadFloats(target, *first, *count),
        ProcessAction::SetFloats(first, values) => {
            control::WorkerRequest::WriteFloats(target, *first, values.clone())
        }
        ProcessAction::Goto(address) => control::WorkerRequest::Goto(target, *address),
        ProcessAction::Backtrace(names) => control::WorkerRequest::Backtrace(target, u16::MAX, *names),
        ProcessAction::Loader => control::WorkerRequest::LoadedImages(target),
        ProcessAction::Work(work) => control::WorkerRequest::RunBatch(target, work.clone()),
        ProcessAction::Checkpoint => control::WorkerRequest::CheckCriu,
        ProcessAction::Lossless => control::WorkerRequest::CheckLossless(target),
        ProcessAction::Movable => control::WorkerRequest::CheckMovable(target, folder.to_owned()),
        ProcessAction::Dump(name) => control::WorkerRequest::Dump(target, mark, dump(name)),
        ProcessAction::Restore(name) | ProcessAction::Return(name) => control::WorkerRequest::Restore(mark, dump(name)),
        ProcessAction::Start(program) => control::WorkerRequest::Start(program.clone()),
    }
}

/// An errand of one process, as a hand has it; what comes of it bears the mark.
pub fn run_control_request(errand: &RunControl, target: Target, mark: RequestTag) -> control::WorkerRequest {
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
